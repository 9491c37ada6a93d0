// Which sockets become rsockets: the rules of /etc/rdma/rsocket/preload_config, one line each,
//
//     program domain type protocol
//
// where program is the beginning of a program's name, domain INET or INET6, type STREAM or DGRAM, protocol
// TCP or UDP, and * anything. Without the file: every stream. (Datagram sockets only by a rule, since a
// resolver's datagrams go to servers that know no rsockets.)
#pragma once

namespace verbena::rspreload {

bool wanted(int domain, int type, int protocol);

// RDMAV_FORK_SAFE or IBV_FORK_SAFE is set: a connection becomes a rsocket at its first use, in whichever
// process uses it, so that servers may fork after accept.
bool fork_support();
// One of them is 2: what says so is told to all peers, as rdma-core's library does it (words.h). Others than
// rdma-core's take it for data.
bool speaks_to_all();

}  // namespace verbena::rspreload
