// Connections of programs that fork: made over the kernel's sockets, and replaced by rsockets at their first
// use, in the process that uses them. The side that accepted listens with a rsocket on the same port and says
// so on the old connection (words.h); the side that connected waits for that and connects there. Where either
// cannot, both go on with the old connection, and no program sees a byte of all this.
//
// The side that connected cannot know whether the peer has anything to say. Who reads waits for the peer
// anyway. Who writes waits for kPatience, and then gives up: what is written tells the peer.
//
// That no program sees a byte of it holds for processes with this library: one that inherits such a
// connection by exec(), or gets it by a message, goes on where the other was (adopt). One without reads the
// words.
//
// An entry's lock is held while its connection is settled: by the accepting side as long as the peer has to
// come (2 s, or 0.5 s where the program does not wait), by the other while it goes there (2 s) and then until
// the peer says which it is, for which one that is stopped is waited 30 s. Also who only looks (poll with no
// time) waits for that; it is once in a connection's life, and two that are both there need a moment.
#pragma once

#include <cstdint>

namespace verbena::rspreload {

struct Entry;

enum class Use {
    look,   // whether it is ready to be read; does not wait for the peer's word
    ready,  // the same, also to be written
    read,
    write,
};

inline constexpr std::int64_t kPatience = 500;  // milliseconds

inline constexpr int kPlain = -1;   // the kernel's connection stays
inline constexpr int kNotYet = -2;  // with errno: nothing has come, or it is not known what becomes of it

// The rsocket, or one of these.
int connect_after_fork(int fd, Entry& entry, Use use, int flags);
int accept_after_fork(int fd, Entry& entry);

// Before the kernel's connect(), and behind it.
void begin_fork_connection(int fd, Entry& entry);
void end_fork_connection(int fd, Entry& entry, bool connects);
// shutdown() of a connection that may be settled by another thread meanwhile.
int shut_down(int fd, Entry& entry, int how);
// Before a descriptor is closed: a word that nobody has read would make the kernel reset the connection, and
// drop what it has not sent yet.
void before_closing(int fd);
// A descriptor that came from another program: a connection that is not settled is gone on with.
void adopt(int fd);

// The rsocket takes over from the kernel's connection.
int take_over(int fd, Entry& entry, int rs);

std::int64_t milliseconds_now();
int milliseconds_until(std::int64_t deadline);  // 0: it has passed

}  // namespace verbena::rspreload
