// Event channels. The program's end of a SOCK_SEQPACKET pair is channel->fd; the daemon writes one cm::Event
// per datagram to the other end. So the descriptor is readable if and only if an event waits, and blocking,
// O_NONBLOCK, signals, poll and epoll are the kernel's own behaviour.
//
// Events sometimes have to leave the middle of that queue: an id is destroyed, or moves to another channel. A
// socket cannot do that, so it is read as far as the last of them, what stays is kept in `held`, and for each
// event held one *token* (an event without an id) is sent through the socket again. Whoever reads a datagram
// appends its event, if it has one, to `held` and takes the first of `held`: one readable datagram is one
// event, in the order of arrival, whatever the daemon sends meanwhile. Whose the datagram was matters to
// nobody, so for an event that leaves `held` the next one is read, and nothing sent.
#pragma once

#include <rdma/rdma_cma.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>

#include "base/no_cancellation.h"
#include "base/time.h"
#include "cm/types.h"

namespace verbena::rdmacm {

struct Id;
struct Group;

struct Channel : rdma_event_channel {
    Channel() : rdma_event_channel{} { fd = -1; }
    ~Channel();
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;

    cm::FileNumber file = 0;          // the daemon's name for it
    std::uint32_t generation = 0;     // of the daemon that knows it
    std::atomic<unsigned> routes{0};  // resolved without its other end (own_events.h)
    // Who reads it looks into the ids' completion queues at a disconnect: nobody else need have done so
    // before.
    std::atomic<bool> reader_polls{false};

    std::mutex mutex;  // reading the socket, and everything below
    std::list<cm::Event> held;
    std::uint64_t last_mark = 0;
    std::atomic<bool> closed{false};  // destroyed by the program; ids may still refer to it
    // Set before `closed`: who destroyed it, and whether its readers slept.
    pid_t destroyer = 0;
    bool blocking = true;
};

// A channel and its file in the daemon; nullptr with errno and a reason. ENODEV: no device exists.
std::shared_ptr<Channel> open_channel();

// Takes it from the process's table and closes both ends: the daemon destroys the ids that are left on it.
void close_channel(const std::shared_ptr<Channel>& channel);

// For a thread that asks a channel for an event just as another thread destroys it and ends the process
// (rping's two do so): whether it came in time is chance. In time it would sleep to the process's end, as in
// a kernel; late, it sleeps at most this long before it is told of the mistake. Returns at once where nobody
// can have meant that: the reader destroyed the channel itself, or does not block.
inline constexpr Duration kLateReader = 5 * kSecond;
void late_reader(const rdma_event_channel* channel);

// The next event and the id that it counts for (the listener, for a connection request), which is counted as
// delivered. Blocks as the descriptor's flags say, until then a cancellation point; `whole` is held from the
// moment that an event is taken. Returns 0, or an errno: EAGAIN, EINTR (no reason recorded, both are
// ordinary), EIO (the daemon is gone and every id was told), EBADF (destroyed before it was looked at).
int next_event(Channel& channel, cm::Event& event, std::shared_ptr<Id>& owner,
               std::optional<NoCancellation>& whole);

// Takes the `count` events of an id (for a listener: its connection requests too) that the program was not
// given out of the queue, in order. There may be fewer: a thread that reads meanwhile drops those of an id
// that is destroyed. The caller holds channel.mutex.
std::list<cm::Event> extract_events(Channel& channel, cm::IdNumber id, std::uint64_t count);
// The same for the events of one multicast join.
std::list<cm::Event> extract_join_events(Channel& channel, cm::IdNumber id, std::uint64_t join,
                                         std::uint64_t count);

// Appends events that were taken from another channel. The caller holds channel.mutex.
void append_events(Channel& channel, std::list<cm::Event> events);

}  // namespace verbena::rdmacm
