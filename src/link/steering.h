// One UDP receive queue per process, chosen by the kernel from the packet's destination QPN, without
// privileges: the sockets of one SO_REUSEPORT group share UDP port 4791, and a classic-BPF program attached
// to the group returns the index of the socket (sockets count in the order in which they were bound).
//
//     queue = destination QPN >> 12; queue 0 is the daemon's: QP1, unknown QPNs, runts.
//
// Beyond the group's end the kernel would fall back to a hash of addresses and ports; the program answers 0
// there, so it must be attached again whenever the group has grown. A socket that is closed moves the last
// one into its place: whoever created the group keeps a duplicate of every socket. Never connect() one of
// them.
#pragma once

#include <cstdint>

namespace verbena::link {

inline constexpr unsigned kBlockBits = 12;  // QPNs per queue
inline constexpr std::uint32_t kBlockSize = 1u << kBlockBits;
inline constexpr std::uint32_t kMaxBlocks = 1u << (24 - kBlockBits);

constexpr std::uint32_t block_of(std::uint32_t qpn) { return qpn >> kBlockBits; }

// The next socket of the group on all addresses of both families (open_receive_socket), with all options set.
// Returns the descriptor (close on exec, non-blocking), or -1 with errno and a reason: EADDRINUSE if another
// user holds the port. `port` 0 chooses one that nobody has.
int open_group_socket(std::uint16_t port, bool gro);

// A socket on the same addresses that shares its port with no group, not even of this user; `port` 0: any. -1
// with errno.
int open_lone_socket(std::uint16_t port);

// The port that a socket is bound to; 0 on failure.
std::uint16_t bound_port(int fd);

// Attaches the program for a group of `group_size` sockets through any socket that is not locked. 0 or errno.
int attach_steering(int fd, std::uint32_t group_size);

// Nobody can change filter or program through this socket any more; done before it is handed to a process.
int lock_filter(int fd);

// The socket of a dead process: what arrives is dropped as soon as one packet waits. A locked socket takes no
// filter, so this works by its buffer's size. unpark() gives the buffer back and throws away what waits.
int park(int fd);
int unpark(int fd);

// Throws away all that waits in a non-blocking socket. Returns the number of datagrams.
unsigned drain(int fd);

}  // namespace verbena::link
