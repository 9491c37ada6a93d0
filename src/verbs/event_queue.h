// What a program waits for on a file descriptor: completion events of a channel, asynchronous events of a
// context. The descriptor is an eventfd that counts the queued events, so it is readable if and only if one
// waits, and blocking, O_NONBLOCK, EINTR, poll, select and epoll behave as the kernel makes them.
//
// To write to it and read it again costs two system calls for each event. So what a thread queues while it
// waits for events itself (Expecting) waits for that thread: the descriptor is told only of what it leaves.
// What others queue it is told of when they have left their locks (PutOff), unless somebody has come for it
// by then.
//
// Thread safety: all calls.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "adapter/waiting.h"
#include "base/fifo.h"
#include "base/own_file.h"
#include "base/own_pid.h"
#include "base/put_off.h"
#include "base/reason.h"
#include "base/signal_event.h"

namespace verbena::verbs {

template <class Event>
class EventQueue final : Wakening {
   public:
    EventQueue() : awaited_(beside_standard_files(eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)), true) {}
    ~EventQueue() {
        wait_for_tellers();
        if (is_ours() && file_.is(fd())) close(fd());
    }
    EventQueue(const EventQueue&) = delete;
    EventQueue& operator=(const EventQueue&) = delete;

    int fd() const { return awaited_.fd; }  // -1 if none could be had
    adapter::Awaited& awaited() { return awaited_; }

    // For so many that wait: push() needs no memory then. Throws std::bad_alloc.
    void make_room_for(std::size_t events) {
        std::lock_guard lock(mutex_);
        events_.reserve(events);
    }

    void push(const Event& event) noexcept {
        {
            std::lock_guard lock(mutex_);
            try {
                events_.push_back(event);
            } catch (const std::bad_alloc&) {
                return log(LogLevel::error, "no memory for an event, which is lost");
            }
            count();
            if (expected_by_me()) {
                untold_++;
                return;
            }
            due_++;
            const PutOff::Added added = PutOff::add(*this);
            if (added == PutOff::Added::again) return;
            tellers_++;
            if (added == PutOff::Added::first) return;
        }
        wake();
    }

    // While it lives, its thread drives whatever queues events, and then takes one.
    class Expecting {
       public:
        explicit Expecting(EventQueue& queue) : queue_(queue) { queue_.expect(); }
        ~Expecting() { queue_.expect_no_more(); }
        Expecting(const Expecting&) = delete;
        Expecting& operator=(const Expecting&) = delete;

       private:
        EventQueue& queue_;
    };

    // Waits as the descriptor's flags say. 0, or EAGAIN, EINTR; EBADF: the program has closed it.
    // `taken(event)` runs before remove_if() can see that the event has gone: who destroys its object either
    // takes it back or knows that it was delivered.
    template <class Taken>
    int take(Event& event, Taken taken) {
        if (take_without_descriptor(event, taken)) return 0;
        while (is_ours()) {
            std::uint64_t one;
            if (read(fd(), &one, sizeof one) != sizeof one) return errno;
            if (take_front(event, taken)) return 0;  // else remove_if() was faster
        }
        return take_front(event, taken) ? 0 : EBADF;
    }

    // The same without waiting: false if there is none, or if only waiting could tell.
    template <class Taken>
    bool take_at_once(Event& event, Taken taken) {
        if (awaited_.events.load(std::memory_order_relaxed) == 0) return false;
        return take_without_descriptor(event, taken) || (take_back() && take_front(event, taken));
    }

    // Takes back the events that match, as if they had never been queued.
    template <class Predicate>
    void remove_if(Predicate matches) {
        std::size_t told = 0;
        {
            std::lock_guard lock(mutex_);
            std::size_t left = events_.size();
            for (std::size_t gone = events_.erase_if(matches); gone > 0; gone--) {
                left--;
                if (due_ + untold_ <= left)
                    told++;
                else if (due_ > 0)
                    due_--;
                else
                    untold_--;
            }
            count();
        }
        if (told > 0) wait_for_tellers();
        // A reader that counted one of these already finds the queue short and waits again.
        for (; told > 0; told--) take_back();
    }

   private:
    template <class Taken>
    bool take_front(Event& event, Taken taken) {
        std::lock_guard lock(mutex_);
        if (events_.size() <= untold_ + due_) return false;  // those are for others
        remove_front(event, taken);
        return true;
    }

    template <class Taken>
    bool take_without_descriptor(Event& event, Taken taken) {
        std::lock_guard lock(mutex_);
        if (due_ > 0)
            due_--;
        else if (untold_ > 0 && expected_by_me())
            untold_--;
        else
            return false;
        remove_front(event, taken);
        return true;
    }

    template <class Taken>
    void remove_front(Event& event, Taken taken) {
        event = events_.front();
        events_.pop_front();
        count();
        taken(event);
    }

    void expect() {
        std::lock_guard lock(mutex_);
        if (!expecting_) expecting_ = pthread_self();
    }
    void expect_no_more() {
        {
            std::lock_guard lock(mutex_);
            if (!expected_by_me()) return;
            expecting_.reset();
            if (untold_ == 0) return;
            due_ += std::exchange(untold_, 0);
            tellers_++;
        }
        wake();
    }

    // Not under the lock, which who has been woken by that wants next.
    void wake() noexcept override {
        std::uint64_t due = 0;
        {
            std::lock_guard lock(mutex_);
            due = std::exchange(due_, 0);
        }
        if (due > 0) add(due);
        tellers_--;
    }
    // Threads that have queued something, and have not told it yet. A forked child has none of its parent's.
    void wait_for_tellers() const {
        while (tellers_.load() > 0 && own_pid() == owner_) sched_yield();
    }
    bool expected_by_me() const { return expecting_ && pthread_equal(*expecting_, pthread_self()); }

    void count() { awaited_.events.store(static_cast<unsigned>(events_.size()), std::memory_order_relaxed); }

    // The descriptor counts the events but for those untold and due. Neither call is a cancellation point:
    // what a thread has taken it returns with, and what it leaves it tells, whoever cancels it.
    void add(std::uint64_t more) {
        if (is_ours()) signal_event(fd(), more);
    }
    bool take_back() {
        if (!is_ours()) return false;
        constexpr long kHere = -1;  // the file's own position
        std::uint64_t one;
        iovec place{&one, sizeof one};
        return syscall(SYS_preadv2, fd(), &place, 1, kHere, kHere, RWF_NOWAIT) == ssize_t{sizeof one};
    }

    // Whether the program has left it open.
    bool is_ours() const { return age_.is_of_now(); }

    adapter::Awaited awaited_;
    const pid_t owner_ = own_pid();
    const FilesAge age_;
    const FileIdentity file_ = FileIdentity::of_eventfd(fd());
    std::mutex mutex_;
    Fifo<Event> events_;
    std::optional<pthread_t> expecting_;
    std::uint64_t untold_ = 0;  // left to the thread that expects them
    std::uint64_t due_ = 0;     // told when a thread's locks are free (PutOff)
    std::atomic<unsigned> tellers_{0};
};

}  // namespace verbena::verbs
