// A completion queue (IBA 10.2.5, 11.2.8): a ring of completions, and the arming of its notification.
//
// A notification is given once for each arming: when the next completion arrives, or, armed for solicited
// ones only, the next one that is solicited or failed (IBA 11.4.2.2). Completions that arrived before the
// arming do not count. A moderated queue waits with it for more of them, or for some time (moderation.h).
//
// Thread safety: all calls. The listener is called with the queue's lock held and must not call back into it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "base/lock.h"
#include "base/time.h"
#include "completion/completion.h"

namespace verbena::completion {

class CompletionQueue;
class EventDeadlines;

class CompletionListener {
   public:
    virtual ~CompletionListener() = default;
    virtual void completion_event(CompletionQueue& queue) = 0;  // an armed queue got its completion
    virtual void overrun(CompletionQueue& queue) = 0;  // a completion found no place (IBA 11.2.8.1): CQ error
};

class CompletionQueue {
   public:
    // `ignore_overrun`: a completion that finds no place takes the oldest one's, and nobody is told.
    CompletionQueue(std::uint32_t capacity, CompletionListener* listener, bool ignore_overrun = false);
    ~CompletionQueue();
    CompletionQueue(const CompletionQueue&) = delete;
    CompletionQueue& operator=(const CompletionQueue&) = delete;

    // Adds one; `solicited`: the completion of a receive whose message asked for an event. After an overrun
    // nothing more is taken and the queue is in error. Returns its place in the sequence of all that the
    // queue ever took, from 1 on; 0 if it was not taken.
    std::uint64_t push(const Completion& completion, bool solicited) {
        return push_in_place(solicited, [&](Completion& place) { place = completion; });
    }
    // The same of what `fill` writes to its place, every field, since an older one is there; under the
    // queue's lock, so it must not call the queue. (A copy of what was written field by field elsewhere would
    // wait until each of them has arrived in the cache.)
    template <class Fill>
    std::uint64_t push_in_place(bool solicited, Fill&& fill) {
        std::lock_guard guard(lock_);
        std::uint32_t waiting = waiting_.load(std::memory_order_relaxed);
        if (in_error() || (waiting == capacity() && !make_room(waiting))) [[unlikely]]
            return 0;
        std::uint32_t tail = head_ + waiting;
        if (tail >= capacity()) tail -= capacity();
        fill(ring_[tail]);
        waiting_.store(waiting + 1, std::memory_order_release);
        if (armed_ != Armed::no) [[unlikely]]
            notify(ring_[tail], solicited);
        return gone_.load(std::memory_order_relaxed) + waiting + 1;
    }

    // Whether nothing waits any more at that place of the sequence. Forgetting a queue pair's completions may
    // say so of another's a little early.
    bool gone(std::uint64_t place) const { return place <= gone_.load(std::memory_order_acquire); }

    // Takes up to `most` completions in order, each of which `take` gets to see, and returns how many. Cheap
    // when empty (no lock). `take` must not call the queue.
    template <class Take>
    std::size_t poll_each(std::size_t most, Take&& take) {
        if (waiting_.load(std::memory_order_acquire) == 0) return 0;
        std::lock_guard guard(lock_);
        const std::uint32_t waiting = waiting_.load(std::memory_order_relaxed);
        const std::size_t taken = std::min<std::size_t>(most, waiting);
        const Completion* const ring = ring_.data();
        const std::uint32_t end = capacity();
        std::uint32_t head = head_;
        for (std::size_t i = 0; i < taken; i++) {
            take(ring[head]);
            if (++head == end) head = 0;
        }
        head_ = head;
        waiting_.store(waiting - static_cast<std::uint32_t>(taken), std::memory_order_release);
        remove(taken);
        return taken;
    }
    std::size_t poll(std::span<Completion> out) {
        auto place = out.begin();
        return poll_each(out.size(), [&](const Completion& each) { *place++ = each; });
    }

    // Drops what waits of a queue pair that goes to the reset state, as adapters do: nothing is said about
    // its earlier requests any more.
    void forget(std::uint32_t qp_number);

    void arm(bool solicited_only);

    // The notification waits until `count` completions that are worth it have arrived (0: any number), or
    // until `period` after the first of them (0: for ever). Both 0, or a count of 1: as without. `deadlines`
    // calls advance(), and must outlive the queue. What waits already is judged anew.
    void moderate(std::uint16_t count, Duration period, EventDeadlines& deadlines);
    // Gives the notification whose time has come; returns when that is, kNever if none waits for a time.
    Time advance(Time now);

    // EINVAL if more completions wait than the new capacity holds.
    int resize(std::uint32_t capacity);

    std::uint32_t capacity() const { return capacity_.load(std::memory_order_relaxed); }
    bool in_error() const { return in_error_.load(std::memory_order_relaxed); }
    std::uint32_t waiting() const { return waiting_.load(std::memory_order_acquire); }

   private:
    // With the lock held.
    void remove(std::uint64_t count) {
        gone_.store(gone_.load(std::memory_order_relaxed) + count, std::memory_order_release);
    }
    bool make_room(std::uint32_t& waiting);
    void notify(const Completion& completion, bool solicited);
    void give_if_due(Time now);
    void give();

    enum class Armed : std::uint8_t { no, solicited, any };

    Lock lock_;
    std::vector<Completion> ring_;
    std::atomic<std::uint32_t> capacity_;
    std::uint32_t head_ = 0;  // the next to take
    std::atomic<std::uint32_t> waiting_{0};
    std::atomic<std::uint64_t> gone_{0};  // written under the lock
    Armed armed_ = Armed::no;
    // Moderation; `held_`: completions since the arming for which a notification is due.
    std::uint16_t count_ = 0;
    Duration period_ = 0;
    std::uint32_t held_ = 0;
    Time first_held_ = 0;
    EventDeadlines* deadlines_ = nullptr;
    std::atomic<bool> in_error_{false};
    CompletionListener* listener_;
    const bool ignore_overrun_;
};

}  // namespace verbena::completion
