// Connections of programs that fork: made over the kernel's sockets, and replaced by rsockets at their first
// use, in the process that uses them. The side that accepted listens with a rsocket on the same port and says
// so on the old connection (words.h); the side that connected waits for that and connects there. Where either
// cannot, both go on with the old connection, and no program sees a byte of all this.
//
// The side that connected cannot know whether the peer has anything to say. Who reads waits for the peer
// anyway. Who writes waits for kPatience, and then gives up: what is written tells the peer.
#pragma once

#include <cstdint>

namespace verbena::rspreload {

struct Entry;

enum class Use {
    look,   // whether it is ready to be read; does not wait
    ready,  // the same, also to be written
    read,
    write,
};

inline constexpr int kPlain = -1;   // the kernel's connection stays
inline constexpr int kNotYet = -2;  // with errno: nothing has come, or it is not known what becomes of it

// The rsocket, or one of these.
int connect_after_fork(int fd, Entry& entry, Use use, int flags);
int accept_after_fork(int fd, Entry& entry);

// Before the kernel's connect(), and if that fails.
void begin_fork_connection(int fd, Entry& entry);
void end_fork_connection(int fd, Entry& entry);
// The program ends its side of the connection: it is the kernel's for good.
void stop_waiting(int fd, Entry& entry);

// The rsocket takes over from the kernel's connection.
int take_over(int fd, Entry& entry, int rs);

std::int64_t milliseconds_now();

}  // namespace verbena::rspreload
