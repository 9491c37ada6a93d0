// A completion queue (IBA 10.2.5, 11.2.8): a ring of completions, and the arming of its notification.
//
// A notification is given once for each arming: when the next completion arrives, or, armed for solicited
// ones only, the next one that is solicited or failed (IBA 11.4.2.2). Completions that arrived before the
// arming do not count.
//
// Thread safety: all calls. The listener is called with the queue's lock held and must not call back into it.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "completion/completion.h"

namespace verbena::completion {

class CompletionQueue;

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

    // Adds one; `solicited`: the completion of a receive whose message asked for an event. After an overrun
    // nothing more is taken and the queue is in error. Returns its place in the sequence of all that the
    // queue ever took, from 1 on; 0 if it was not taken.
    std::uint64_t push(const Completion& completion, bool solicited);

    // Whether nothing waits any more at that place of the sequence. Forgetting a queue pair's completions may
    // say so of another's a little early.
    bool gone(std::uint64_t place) const { return place <= gone_.load(std::memory_order_acquire); }

    // Takes up to `out.size()` completions in order. Cheap when empty (no lock).
    std::size_t poll(std::span<Completion> out);

    // Drops what waits of a queue pair that goes to the reset state, as adapters do: nothing is said about
    // its earlier requests any more.
    void forget(std::uint32_t qp_number);

    void arm(bool solicited_only);

    // EINVAL if more completions wait than the new capacity holds.
    int resize(std::uint32_t capacity);

    std::uint32_t capacity() const { return capacity_.load(std::memory_order_relaxed); }
    bool in_error() const { return in_error_.load(std::memory_order_relaxed); }
    std::uint32_t waiting() const { return waiting_.load(std::memory_order_acquire); }

   private:
    void remove(std::uint64_t count);  // with the lock held

    enum class Armed : std::uint8_t { no, solicited, any };

    std::mutex lock_;
    std::vector<Completion> ring_;
    std::atomic<std::uint32_t> capacity_;
    std::uint32_t head_ = 0;  // the next to take
    std::atomic<std::uint32_t> waiting_{0};
    std::atomic<std::uint64_t> gone_{0};  // written under the lock
    Armed armed_ = Armed::no;
    std::atomic<bool> in_error_{false};
    CompletionListener* listener_;
    const bool ignore_overrun_;
};

}  // namespace verbena::completion
