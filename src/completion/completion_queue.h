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
#include <memory>
#include <mutex>
#include <span>

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
        const std::uint64_t pushed = pushed_.load(std::memory_order_relaxed);
        if (in_error() || (pushed - taken_.load(std::memory_order_relaxed) >= capacity() && !make_room()))
            [[unlikely]]
            return 0;
        Completion& place = at(pushed);
        fill(place);
        pushed_.store(pushed + 1, std::memory_order_release);
        if (armed_ != Armed::no) [[unlikely]]
            notify(place, solicited);
        return pushed + 1;
    }

    // Several, each written to its place by `fill(place, n)`: as many as there is room for. None, if one may
    // have to be told of.
    template <class Fill>
    std::size_t push_some(std::size_t most, Fill&& fill) {
        std::lock_guard guard(lock_);
        const std::uint64_t pushed = pushed_.load(std::memory_order_relaxed);
        const std::uint64_t waits = pushed - taken_.load(std::memory_order_relaxed);
        if (armed_ != Armed::no || in_error() || waits >= capacity()) [[unlikely]]
            return 0;
        const std::size_t count = std::min<std::size_t>(most, capacity() - waits);
        for (std::size_t n = 0; n < count; n++) fill(at(pushed + n), n);
        pushed_.store(pushed + count, std::memory_order_release);
        return count;
    }

    // Whether nothing waits any more at that place of the sequence. Forgetting a queue pair's completions may
    // say so of another's a little early.
    bool gone(std::uint64_t place) const { return place <= taken_.load(std::memory_order_acquire); }

    // Takes up to `most` completions in order, each of which `take` gets to see, and returns how many. Cheap
    // when empty (no lock). `take` must not call the queue.
    template <class Take>
    std::size_t poll_each(std::size_t most, Take&& take) {
        if (waiting() == 0) return 0;
        std::lock_guard guard(lock_);
        const std::uint64_t first = taken_.load(std::memory_order_relaxed);
        const std::uint64_t end =
            first + std::min<std::uint64_t>(most, pushed_.load(std::memory_order_relaxed) - first);
        for (std::uint64_t i = first; i != end; i++) take(at(i));
        taken_.store(end, std::memory_order_release);
        return end - first;
    }
    std::size_t poll(std::span<Completion> out) {
        auto place = out.begin();
        return poll_each(out.size(), [&](const Completion& each) { *place++ = each; });
    }

    // Drops what waits of a queue pair that goes to the reset state, as adapters do: nothing is said about
    // its earlier requests any more.
    void forget(std::uint32_t qp_number);

    void arm(bool solicited_only);
    enum class Armed : std::uint8_t { no, solicited, any };
    // As it is now. `is_held`: a notification would be due, but for moderation.
    struct Notice {
        Armed armed = Armed::no;
        bool is_held = false;
    };
    Notice notice();

    // The notification waits until `count` completions that are worth it have arrived (0: any number), or
    // until `period` after the first of them (0: for ever), or until the queue is full. Both 0, or a count
    // of 1: as without. `deadlines` calls advance(), and must outlive the queue. What waits already is judged
    // anew.
    void moderate(std::uint16_t count, Duration period, EventDeadlines& deadlines);
    // Gives the notification whose time has come; returns when that is, kNever if none waits for a time.
    Time advance(Time now);

    // The listener hears of nothing any more, not even of what another thread is about to give.
    void fall_silent();

    // EINVAL if more completions wait than the new capacity holds.
    int resize(std::uint32_t capacity);

    std::uint32_t capacity() const { return capacity_.load(std::memory_order_relaxed); }
    bool in_error() const { return in_error_.load(std::memory_order_relaxed); }
    std::uint64_t taken() const { return taken_.load(std::memory_order_acquire); }
    std::uint32_t waiting() const {
        const std::uint64_t before = taken();  // first: it never overtakes
        return static_cast<std::uint32_t>(pushed_.load(std::memory_order_acquire) - before);
    }

   private:
    // With the lock held.
    Completion& at(std::uint64_t place) { return ring_[place & mask_]; }
    bool make_room();
    void notify(const Completion& completion, bool solicited);
    void give_if_due(Time now);
    void give();

    Lock lock_;
    std::unique_ptr<Completion[]> ring_;
    std::uint64_t mask_;                               // the ring is a power of two
    std::atomic<std::uint64_t> pushed_{0}, taken_{0};  // how many ever were; written under the lock
    std::atomic<std::uint32_t> capacity_;
    std::atomic<bool> in_error_{false};
    Armed armed_ = Armed::no;
    // Moderation; `held_`: completions since the arming for which a notification is due.
    std::uint16_t count_ = 0;
    Duration period_ = 0;
    std::uint32_t held_ = 0;
    Time first_held_ = 0;
    EventDeadlines* deadlines_ = nullptr;
    CompletionListener* listener_;
    const bool ignore_overrun_;
};

}  // namespace verbena::completion
