// The program's epoll sets. Each is one of librdmacm's, which has a descriptor of its own; the program's is a
// duplicate of that, and may be duplicated and closed as any.
//
// Thread safety: all calls.
#pragma once

#include <cstdint>

namespace verbena::rspreload {

// librdmacm's number of the set behind a descriptor; -1: it is none.
int set_of(int fd);
// Counts the sets that had the number.
std::uint32_t serial_of(int set);

bool insert_set(int fd, int set);  // false: a number is too large
// The descriptor was duplicated by the kernel; what stood under the new number ends. False: it is no set.
bool share_set(int from, int to);
// Before the descriptor is closed; closes the set with its last descriptor.
void remove_set(int fd);

}  // namespace verbena::rspreload
