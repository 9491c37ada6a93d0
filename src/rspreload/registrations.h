// Which rsockets stand in which epoll sets of librdmacm: when the kernel's socket takes over, it takes over
// there, too.
//
// Thread safety: all calls.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <vector>

extern "C" {
[[gnu::weak]] int repoll_ctl(int epoll, int operation, int fd, epoll_event* event);
}

namespace verbena::rspreload {

struct Entry;

struct Registration {
    int set;               // of sets.h
    std::uint32_t serial;  // its number may be another's by now
    int fd;                // by which the program named the socket
    epoll_event event;
    bool for_us = false;  // of connecting_in(): the kernel's socket stands in the set for what we hear
};

// epoll_ctl of a rsocket. It is noted before it is made, since another thread may hear of it at once.
int control_registration(int set, int operation, int rs, int fd, epoll_event* event, Entry& entry);
// epoll_ctl of a connection of which it is not known yet what it becomes (fork.h): the kernel's socket stands
// in the set for what comes, and is not writable. A timer of the set's brings the end of the wait to whoever
// waits there. Under the entry's lock.
int control_pending(int set, int operation, int fd, epoll_event* event, Entry& entry);
// A socket that is about to connect, and stands in sets already.
void make_pending(Entry& entry);
// It is known: the rsocket stands there now, or, without (-1), the kernel's socket as any. Under the same
// lock.
void settle_pending(int fd, Entry& entry, int rs);
// The kernel's socket, which is `fd` now, stands in the same sets from now on.
void move_registrations(int fd, Entry& entry);

// A connection without waiting, or one that is not settled, begins, or is over.
void begin_connecting(Entry& entry);
void end_connecting(Entry& entry);
// Those under way in a set.
std::vector<Registration> connecting_in(int set);
// An event of what stands there now was taken by mistake: it is told again.
void tell_again(const Registration& registration);

}  // namespace verbena::rspreload
