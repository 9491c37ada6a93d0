// A receive queue: an object of its own that a queue pair refers to, so that shared receive queues
// (IBA 10.2.9) and XRC need no other transport. Entries are taken in order.
//
// A shared queue has a protection domain of its own, in which the elements of its requests are looked up, and
// a limit that is reported once when fewer requests wait (IBA 10.2.9.3). A queue pair that finds it empty
// leaves its number, so that whoever posts can wake it without looking at all of them. An XRC queue has a
// completion queue and an XRC domain as well (annex A14).
//
// Thread safety: all calls. The listener is called with the queue's lock held and must not call back.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "base/lock.h"
#include "completion/completion_queue.h"
#include "memory/regions.h"
#include "transport/requests.h"

namespace verbena::transport {

class ReceiveQueue;

class ReceiveQueueListener {
   public:
    virtual ~ReceiveQueueListener() = default;
    virtual void limit_reached(ReceiveQueue& queue) = 0;
};

// What a shared queue has beyond one queue pair's.
struct SharedQueueSetup {
    memory::PdNumber pd = 0;
    ReceiveQueueListener* listener = nullptr;
    completion::CompletionQueue* cq = nullptr;  // XRC
    std::uint32_t xrc_domain = 0;               // XRC; 0: none
};

class ReceiveQueue {
   public:
    static constexpr std::size_t kMaxWaiters = 32;

    ReceiveQueue(std::uint32_t capacity, std::uint32_t max_sge);
    ReceiveQueue(std::uint32_t capacity, std::uint32_t max_sge, const SharedQueueSetup& shared);

    // ENOMEM: full. EINVAL: too many SGEs.
    int post(const ReceiveRequest& request);

    // Takes the oldest request; its SGEs are copied to `sges` (room for max_sge()). False if there is none:
    // then `waiter`, the number of a queue pair, is remembered unless it is 0.
    bool take(std::uint64_t& wr_id, std::span<Sge> sges, std::uint32_t& sge_count, std::uint32_t waiter = 0);

    // The same without the SGEs, for flushing.
    bool take_id(std::uint64_t& wr_id);

    // A request that was taken and not used becomes the oldest again.
    void give_back(std::uint64_t wr_id, std::span<const Sge> sges);

    std::uint32_t capacity() const { return capacity_.load(std::memory_order_relaxed); }
    std::uint32_t max_sge() const { return max_sge_; }
    std::uint32_t waiting();
    void clear();

    bool shared() const { return is_shared_; }
    memory::PdNumber pd() const { return shared_.pd; }
    // In which the elements of its requests are looked up: a shared queue's own (IBA 10.2.9.1), else that of
    // the queue pair.
    memory::PdNumber pd_of_requests(memory::PdNumber of_queue_pair) const {
        return is_shared_ ? shared_.pd : of_queue_pair;
    }
    std::uint32_t xrc_domain() const { return shared_.xrc_domain; }

    // EINVAL: more requests wait than the new capacity holds.
    int resize(std::uint32_t capacity);

    // Reported at once if fewer requests than that wait already. 0: none.
    void arm_limit(std::uint32_t limit);
    std::uint32_t limit();

    // Queue pairs that found the queue empty, at most as many as requests wait; they are forgotten.
    std::size_t take_waiters(std::span<std::uint32_t, kMaxWaiters> out);

    // XRC: to the queue's own completion queue.
    void complete(const completion::Completion& completion, bool solicited);

    // Nothing is taken, reported or completed any more: listener and completion queue may go.
    void close();

   private:
    struct Entry {
        std::uint64_t wr_id;
        std::uint32_t sge_count;
    };

    std::uint32_t slot(std::uint32_t index) const {
        const std::uint64_t at = std::uint64_t{head_} + index;
        return static_cast<std::uint32_t>(at >= entries_.size() ? at - entries_.size() : at);
    }
    std::span<Sge> sges_of(std::uint32_t slot) {
        return {sges_.data() + std::size_t{slot} * max_sge_, max_sge_};
    }
    void pop();
    void rebuild(std::uint32_t room);
    void report_limit();

    Lock lock_;
    std::atomic<std::uint32_t> capacity_;
    const std::uint32_t max_sge_;
    const bool is_shared_;
    SharedQueueSetup shared_;
    bool closed_ = false;
    std::vector<Entry> entries_;
    std::vector<Sge> sges_;
    std::uint32_t head_ = 0;
    std::uint32_t count_ = 0;
    std::uint32_t limit_ = 0;
    std::array<std::uint32_t, kMaxWaiters> waiters_{};
    std::atomic<std::uint32_t> waiter_count_{0};  // changes under the lock
};

}  // namespace verbena::transport
