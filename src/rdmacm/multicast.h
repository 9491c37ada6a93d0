// Joins of multicast groups by an id; see multicast.cpp.
#pragma once

#include <cstdint>
#include <memory>

#include "cm/types.h"

namespace verbena::rdmacm {

struct Id;
struct Group;

// The join that an event is about; nullptr if the program has left the group meanwhile.
std::shared_ptr<Group> find_group(Id& id, std::uint64_t handle);

// The join has succeeded: the id's queue pair receives from the group. 0, or an errno with a reason.
int attach_group(Id& id, Group& group, const cm::Event& event);

}  // namespace verbena::rdmacm
