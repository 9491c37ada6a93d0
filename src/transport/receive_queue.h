// A receive queue: an object of its own that a queue pair refers to, so that shared receive queues
// (IBA 10.2.9) and XRC need no other transport. Entries are taken in order.
//
// A shared queue has a protection domain of its own, in which the elements of its requests are looked up, and
// a limit that is reported once when fewer requests wait (IBA 10.2.9.3). A queue pair that finds it empty
// leaves its number, so that whoever posts can wake it without looking at all of them. An XRC queue has a
// completion queue and an XRC domain as well (annex A14).
//
// Thread safety: all calls; but of a queue pair's own queue, which is taken from without a lock, take(),
// oldest(), drop_oldest(), take_id() and clear() under the queue pair's, and neither give_back() nor
// resize(). The listener is called with the queue's lock held and must not call back.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "base/dense_memory.h"
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

class alignas(64) ReceiveQueue {
   public:
    static constexpr std::size_t kMaxWaiters = 32;

    ReceiveQueue(std::uint32_t capacity, std::uint32_t max_sge);
    ReceiveQueue(std::uint32_t capacity, std::uint32_t max_sge, const SharedQueueSetup& shared);

    ~ReceiveQueue() { const Ring gone(entries_, lines(mask_)); }
    ReceiveQueue(const ReceiveQueue&) = delete;
    ReceiveQueue& operator=(const ReceiveQueue&) = delete;

    // ENOMEM: full. EINVAL: too many SGEs.
    int post(const ReceiveRequest& request);
    // The same without a reason; false: it does not go in.
    bool try_post(const ReceiveRequest& request) {
        if (request.sges.size() > max_sge_) [[unlikely]]
            return false;
        std::lock_guard guard(lock_);
        const std::uint32_t posted = posted_.load(std::memory_order_relaxed);
        if (posted - taken_.load(std::memory_order_acquire) >= capacity()) [[unlikely]]
            return false;
        write(posted, request.wr_id, request.sges);
        posted_.store(posted + 1, std::memory_order_release);
        return true;
    }

    // Takes the oldest request; its SGEs are copied to `sges` (room for max_sge()). False if there is none:
    // then `waiter`, the number of a queue pair, is remembered unless it is 0.
    bool take(std::uint64_t& wr_id, std::span<Sge> sges, std::uint32_t& sge_count, std::uint32_t waiter = 0) {
        if (is_shared_) return take_shared(wr_id, sges, sge_count, waiter);
        if (posted_.load(std::memory_order_acquire) == taken_.load(std::memory_order_relaxed)) [[unlikely]]
            return false;
        read_oldest(wr_id, sges, sge_count);
        drop_oldest();
        return true;
    }

    // Of a queue pair's own queue: the oldest request where it lies, until drop_oldest(), which takes it.
    struct Oldest {
        std::uint64_t wr_id = 0;
        std::span<const Sge> sges;
    };
    bool oldest(Oldest& request) {
        if (posted_.load(std::memory_order_acquire) == taken_.load(std::memory_order_relaxed)) [[unlikely]]
            return false;
        request = at(taken());
        return true;
    }
    void drop_oldest(std::uint32_t count = 1) {
        taken_.store(taken_.load(std::memory_order_relaxed) + count, std::memory_order_release);
    }
    std::uint32_t count() const {  // that wait
        return posted_.load(std::memory_order_acquire) - taken_.load(std::memory_order_acquire);
    }
    // Requests have numbers, in the order in which they were posted; the oldest has this one.
    std::uint32_t taken() const { return taken_.load(std::memory_order_relaxed); }
    // One that waits, as oldest() gives the first.
    Oldest at(std::uint32_t number) {
        Entry& waits = entry(number);
        return {waits.wr_id, {waits.sges(), waits.sge_count}};
    }

    // The same without the SGEs, for flushing.
    bool take_id(std::uint64_t& wr_id);

    // A request that was taken and not used becomes the oldest again.
    void give_back(std::uint64_t wr_id, std::span<const Sge> sges);

    // Of a queue pair's own queue, as that one's state says (IBA 10.3.1): nothing may be posted, what is
    // posted waits, or it completes at once as flushed, for which the queue pair must be told.
    enum class Takes : std::uint8_t { nothing, requests, to_flush };
    Takes takes() const { return takes_.load(); }
    void set_takes(Takes what) { takes_.store(what); }

    std::uint32_t capacity() const { return capacity_.load(std::memory_order_relaxed); }
    std::uint32_t max_sge() const { return max_sge_; }
    // The cache line in which all requests lie, or nullptr: they take more than one.
    const void* only_line() const;
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

    // XRC: to the queue's own completion queue. False: that has overrun, and this completion is lost.
    bool complete(const completion::Completion& completion, bool solicited);

    // Nothing is taken, reported or completed any more: listener and completion queue may go.
    void close();

   private:
    // One request; its elements follow, room for max_sge_ of them.
    struct Entry {
        std::uint64_t wr_id;
        std::uint32_t sge_count;

        Sge* sges() { return reinterpret_cast<Sge*>(this + 1); }
    };
    static_assert(sizeof(Entry) % alignof(Sge) == 0);

    struct alignas(64) Line {
        std::byte bytes[64];
    };
    using Ring = DenseArray<Line>;
    static std::byte* bytes(Line* ring) { return reinterpret_cast<std::byte*>(ring); }

    std::size_t stride() const { return sizeof(Entry) + max_sge_ * sizeof(Sge); }  // bytes
    std::size_t lines(std::uint32_t mask) const {
        return ((std::size_t{mask} + 1) * stride() + sizeof(Line) - 1) / sizeof(Line);
    }
    Line* make_ring(std::uint32_t mask) const { return Ring(lines(mask)).release(); }
    // Of the request that is the `number`th ever posted.
    Entry& entry(std::uint32_t number) {
        return *reinterpret_cast<Entry*>(bytes(entries_) + (number & mask_) * stride());
    }
    Entry& oldest_entry() { return entry(taken_.load(std::memory_order_relaxed)); }
    void write(std::uint32_t number, std::uint64_t wr_id, std::span<const Sge> sges) {
        Entry& to = entry(number);
        to.wr_id = wr_id;
        to.sge_count = static_cast<std::uint32_t>(sges.size());
        Sge* at = to.sges();
        if (sges.size() == 1) [[likely]] {
            *at = sges[0];
            return;
        }
        for (const Sge& sge : sges) *at++ = sge;
    }
    void read_oldest(std::uint64_t& wr_id, std::span<Sge> sges, std::uint32_t& sge_count) {
        Entry& entry = oldest_entry();
        wr_id = entry.wr_id;
        sge_count = entry.sge_count;
        const Sge* const from = entry.sges();
        for (std::uint32_t i = 0; i < sge_count; i++) sges[i] = from[i];
    }
    bool take_shared(std::uint64_t& wr_id, std::span<Sge> sges, std::uint32_t& sge_count,
                     std::uint32_t waiter);
    ReceiveQueue(std::uint32_t capacity, std::uint32_t max_sge, const SharedQueueSetup* shared);
    void rebuild(std::uint32_t room);
    void report_limit();

    // What every message needs comes first, in one cache line.
    Lock lock_;
    std::atomic<std::uint32_t> posted_{0}, taken_{0};  // how many ever were
    std::atomic<std::uint32_t> capacity_;
    std::uint32_t mask_;  // the ring is a power of two
    Line* entries_ = nullptr;
    const std::uint32_t max_sge_;
    const bool is_shared_;
    std::atomic<Takes> takes_{Takes::requests};

    SharedQueueSetup shared_;
    bool closed_ = false;
    std::uint32_t limit_ = 0;
    std::array<std::uint32_t, kMaxWaiters> waiters_{};
    std::atomic<std::uint32_t> waiter_count_{0};  // changes under the lock
};

}  // namespace verbena::transport
