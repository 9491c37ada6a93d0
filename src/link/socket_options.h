// The socket options that the receive sockets (UDP 4791) and the sending sockets need, in one place. The
// daemon uses them when it creates a queue, a process when it opens its sending sockets.
#pragma once

#include <cstddef>

namespace verbena::link {

// A receive socket for packets of both families (AF_INET6, dual stack); for IPv4's alone where the kernel
// knows no IPv6 (ipv6.disable=1, a filter on system calls). `type`: further flags of socket(2). -1 with
// errno.
int open_receive_socket(int type);

// AF_INET or AF_INET6.
int family_of(int fd);

// A receive socket (not yet bound): takes packets without UDP checksum over IPv6 (Linux rxe sends none), only
// the multicast groups that it joined itself, and tells destination address, interface, TTL and TOS of each
// packet. `gro`: the kernel may hand over several packets of one flow in one piece. The receive buffer is
// enlarged. Returns 0 or an errno value with a reason.
int prepare_receive_socket(int fd, bool gro);

// Makes the receive buffer as large as net.core.rmem_max allows, or 32 MiB of kernel memory for who may
// exceed it. Returns 0 or an errno value with a reason.
int enlarge_receive_buffer(int fd);

// A sending socket of `family` (AF_INET or AF_INET6; not yet bound). It must never be connected: an
// unconnected socket with path MTU discovery on sends the IPv4 identification 0 that the ICRC counts on (a
// connected one numbers at random). A full send buffer delays at most `kSendTimeoutMilliseconds`, then the
// packets are lost.
inline constexpr int kSendTimeoutMilliseconds = 10;
int prepare_send_socket(int fd, int family);

// Whether the kernel knows UDP_SEGMENT.
bool kernel_has_segmentation(int fd);

// What the receive buffer of `fd` can take, in bytes of kernel memory (a 4 KiB packet takes about two pages
// and a half).
std::size_t receive_buffer(int fd);

}  // namespace verbena::link
