// Whether a program has many small WRITEs under way at once towards one process of this host, over all queue
// pairs that send there, where the link may execute each or let it leave as a packet that the peer's
// processor takes in (direct_access.h). Who waits for a single one has it sooner if it is executed; many are
// there sooner as packets. A queue pair by itself knows of its own only, and of those no more when all of
// them have been acknowledged.
//
// What completes into another queue is another part of the program, which may wait for a single one: it is
// no part of the wave.
//
// Thread safety: all calls; two threads at once may find what one alone would not have found. Nothing here is
// worth a locked instruction, which waits until what has just been stored is everywhere.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.h"

namespace verbena::transport {

class Wave {
   public:
    // That many queue pairs began one behind the other, each before the one before had ended; or that many
    // requests of one are under way.
    static constexpr std::uint32_t kWide = 4;
    static constexpr Duration kLasts = 100 * kMicrosecond;  // ... not so long ago
    static constexpr Duration kServed = 5 * kMicrosecond;   // that the peer takes them in is believed
    static constexpr std::uint32_t kTimed = 4;              // one of so many, in a wave that goes on

    // Another WRITE or READ is posted. How many came before it at once behind each other: `at_once` tells of
    // the time since the last one.
    template <class AtOnce>
    std::uint32_t follows(Time now, AtOnce at_once) {
        streak_.set(at_once(now - posted_.get()) ? streak_.get() + 1 : 0);
        posted_.set(now);
        return streak_.get();
    }

    // A small WRITE is posted to a queue pair that has none under way: whether it goes the way of the others,
    // of a wave that goes on. If not carries() says, which needs the time.
    bool goes_on(const void* queue) {
        if (queue_.get() != queue || !served_.get() || !is_wide()) return false;
        untimed_.set((untimed_.get() + 1) % kTimed);
        return untimed_.get() != 0;
    }

    // The same, or it is left to goes_on() to say so.
    bool surely_goes_on(const void* queue) { return (untimed_.get() + 1) % kTimed != 0 && goes_on(queue); }

    // A small WRITE is posted to a queue pair that has none under way: whether it is to leave as a packet.
    // `queue`: where it completes. `many`: it is one of many for another reason. `served`: whether the peer
    // takes packets in.
    template <class Served>
    bool carries(const void* queue, bool many, Time now, Served served) {
        if (!is_part(queue, many, now)) return false;
        if (now - asked_.get() > kServed) {
            asked_.set(now);
            served_.set(served());
        }
        return served_.get();
    }

    // That queue pair has its first one under way as a packet, ...
    void begins(const void* queue, const void* queue_pair) {
        if (queue_.get() != queue) return;
        overlapping_.set(newest_.get() ? overlapping_.get() + 1 : 0);
        newest_.set(queue_pair);
    }
    // ... so many, ...
    void has(const void* queue, std::uint32_t requests) {
        if (requests >= kWide && !deep_.get() && queue_.get() == queue) deep_.set(true);
    }
    // ... none any more.
    void ends(const void* queue_pair, Time now) {
        if (is_wide()) widens(now);
        if (newest_.get() == queue_pair) newest_.set(nullptr);
    }

   private:
    template <class T>
    class Plain {
       public:
        explicit Plain(T value) : value_(value) {}
        T get() const { return value_.load(std::memory_order_relaxed); }
        void set(T value) { value_.store(value, std::memory_order_relaxed); }

       private:
        std::atomic<T> value_;
    };

    bool is_part(const void* queue, bool many, Time now) {
        if (queue_.get() != queue) {
            if (!many) return false;
            queue_.set(queue);
        }
        if (many || is_wide()) widens(now);
        return now - wide_at_.get() <= kLasts;
    }

    bool is_wide() const { return deep_.get() || (newest_.get() && overlapping_.get() >= kWide); }
    void widens(Time now) {
        deep_.set(false);
        wide_at_.set(now);
    }

    static constexpr Time kLongAgo = INT64_MIN / 2;

    Plain<Time> posted_{kLongAgo};
    Plain<std::uint32_t> streak_{0};

    Plain<const void*> queue_{nullptr};
    Plain<Time> wide_at_{kLongAgo};
    Plain<const void*> newest_{nullptr};   // the last queue pair that began, until it ends
    Plain<std::uint32_t> overlapping_{0};  // so many began before the one before had ended
    Plain<bool> deep_{false};              // since wide_at_ a queue pair had kWide

    Plain<Time> asked_{kLongAgo};
    Plain<bool> served_{false};
    Plain<std::uint32_t> untimed_{0};  // since the last one that was timed
};

}  // namespace verbena::transport
