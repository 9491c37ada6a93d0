// What a program waits for on a file descriptor: completion events of a channel, asynchronous events of a
// context. The descriptor is an eventfd that counts the queued events, so it is readable if and only if one
// waits, and blocking, O_NONBLOCK, EINTR, poll, select and epoll behave as the kernel makes them.
//
// Thread safety: all calls.
#pragma once

#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <deque>
#include <mutex>

namespace verbena::verbs {

template <class Event>
class EventQueue {
   public:
    EventQueue() : fd_(eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)) {}
    ~EventQueue() {
        if (fd_ >= 0) close(fd_);
    }
    EventQueue(const EventQueue&) = delete;
    EventQueue& operator=(const EventQueue&) = delete;

    int fd() const { return fd_; }  // -1 if none could be had

    void push(const Event& event) {
        std::lock_guard lock(mutex_);
        events_.push_back(event);
        add(1);
    }

    // Waits as the descriptor's flags say. 0, or EAGAIN, EINTR. `taken(event)` runs before remove_if() can
    // see that the event has gone: who destroys its object either takes it back or knows that it was
    // delivered.
    template <class Taken>
    int take(Event& event, Taken taken) {
        for (;;) {
            std::uint64_t one;
            if (read(fd_, &one, sizeof one) != sizeof one) return errno;
            std::lock_guard lock(mutex_);
            if (events_.empty()) continue;  // remove_if() was faster
            event = events_.front();
            events_.pop_front();
            taken(event);
            return 0;
        }
    }

    // Takes back the events that match, as if they had never been queued.
    template <class Predicate>
    void remove_if(Predicate matches) {
        std::lock_guard lock(mutex_);
        for (auto event = events_.begin(); event != events_.end();) {
            if (!matches(*event)) {
                ++event;
                continue;
            }
            event = events_.erase(event);
            std::uint64_t one;
            iovec place{&one, sizeof one};
            // A reader that counted this one already finds the queue short and waits again.
            [[maybe_unused]] auto taken = preadv2(fd_, &place, 1, -1, RWF_NOWAIT);
        }
    }

   private:
    void add(std::uint64_t count) { [[maybe_unused]] auto written = write(fd_, &count, sizeof count); }

    const int fd_;
    std::mutex mutex_;
    std::deque<Event> events_;
};

}  // namespace verbena::verbs
