// What a reason adds to the name of a failed check: the values that it looked at. For sentences only, on
// paths of failure; calls inside a memory::Section.
#pragma once

#include <cstdint>
#include <string>

#include "memory/regions.h"
#include "transport/requests.h"

namespace verbena::transport {

// " (lkey 0x1, address 0x2, 3 bytes; the region is ...)" of the first element that is refused; empty if none
// is.
std::string refused_element(const memory::RegionTable& regions, memory::PdNumber pd,
                            std::span<const Sge> sges, memory::Access need);

// The same for what an rkey names here. `length` in bytes.
std::string refused_range(const memory::RegionTable& regions, std::uint32_t rkey, std::uint64_t address,
                          std::uint64_t length);

// For what an rkey names at the peer, whose regions nobody knows here.
std::string remote_range(std::uint32_t rkey, std::uint64_t address, std::uint64_t length);

}  // namespace verbena::transport
