// Connections of programs that fork: made over the kernel's sockets, and replaced by rsockets at their first
// use, in the process that uses them. The side that accepted listens with a rsocket on the same port and says
// so by four zero bytes on the old connection; the side that connected waits for them and connects there.
// (Both sides need fork support; rdma-core's library speaks the same.)
#pragma once

namespace verbena::rspreload {

struct Entry;

// The rsocket, or -1: the kernel's connection stays.
int connect_after_fork(int fd, Entry& entry);
int accept_after_fork(int fd, Entry& entry);

}  // namespace verbena::rspreload
