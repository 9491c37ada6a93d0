// Which of two ways moves WRITEs and READs of some length to a peer of this host faster: executed by us
// alone, or as packets, by the processors of both. How they compare differs from machine to machine and from
// length to length, by factors, and changes within minutes where the machine is shared; so both are measured
// as they go. The other one is tried now and then, ever less often while it is no better. Packets must be
// clearly faster: they cost the peer its processor.
//
// Thread safety: all calls; two threads at once may lose a measurement, or try twice.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

#include "base/time.h"

namespace verbena::adapter {

class Pace {
   public:
    static constexpr Duration kShortest = 50 * kMillisecond,
                              kLongest = 1600 * kMillisecond;  // between trials
    static constexpr Duration kTrial = 2 * kMillisecond;       // lasts at most, if it measures nothing
    static constexpr std::uint32_t kExecuted = 4;              // in a trial
    static constexpr std::uint32_t kByPackets =
        4;  // measurements, before they count; the first has page faults

    void executed(std::uint32_t length, std::uint64_t bytes, Duration took) {
        learn(of(length).executed, bytes, took);
    }
    void by_packets(std::uint32_t length, std::uint64_t bytes, Duration took) {
        learn(of(length).by_packets, bytes, took);
    }

    // `otherwise`: where neither is known. Told: much at a time is about to leave, in operations of that
    // length.
    bool packets_are_faster(std::uint32_t length, bool otherwise, Time now) {
        Way& way = of(length);
        const std::uint32_t alone = way.executed.taken.load(std::memory_order_relaxed);
        const std::uint32_t both = way.by_packets.taken.load(std::memory_order_relaxed);
        if (alone == 0) return both == 0 && otherwise;  // one after the other
        const bool known = way.by_packets.count.load(std::memory_order_relaxed) >= kByPackets;
        const bool faster = known ? 10 * std::uint64_t{both} < 9 * std::uint64_t{alone} : otherwise;
        return tries_other(way, faster, now) ? !faster : faster;
    }

   private:
    struct Measured {
        std::atomic<std::uint32_t> taken{0};  // ns for 1 MiB; 0: not known
        std::atomic<std::uint32_t> count{0};
    };
    struct Way {
        Measured executed, by_packets;
        std::atomic<bool> was_faster{false};
        std::atomic<bool> tries{false};
        std::atomic<std::uint32_t> before{0};  // of the other's `count`, when the trial began
        std::atomic<Time> next{0};             // begin of the next trial; end of this one
        std::atomic<Duration> wait{kShortest};
    };
    static constexpr unsigned kSmallest = 12, kClasses = 10;  // 4 KiB; 2 MiB and more

    Way& of(std::uint32_t length) {
        const unsigned width = static_cast<unsigned>(std::bit_width(length | 1)) - 1;
        return ways_[std::clamp(width, kSmallest, kSmallest + kClasses - 1) - kSmallest];
    }

    // An average of which the newest count most, and less if something was in the way, as page faults are at
    // first.
    static void learn(Measured& measured, std::uint64_t bytes, Duration took) {
        if (bytes == 0 || took <= 0) return;
        const std::uint64_t all = (static_cast<std::uint64_t>(took) << 20) / bytes;
        const auto now = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(all, 1, UINT32_MAX / 8));
        const std::uint32_t known = measured.taken.load(std::memory_order_relaxed);
        const bool better = known == 0 || 2 * now < known;
        measured.taken.store(better ? now : (3 * known + std::min(now, 2 * known)) / 4,
                             std::memory_order_relaxed);
        measured.count.store(measured.count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }

    static bool tries_other(Way& way, bool faster, Time now) {
        const Measured& other = faster ? way.executed : way.by_packets;
        const std::uint32_t count = other.count.load(std::memory_order_relaxed);
        const std::uint32_t enough = faster ? kExecuted : 1;
        if (way.was_faster.exchange(faster, std::memory_order_relaxed) != faster) {  // worth a look soon
            way.wait.store(kShortest, std::memory_order_relaxed);
            return rests(way, now);
        }
        if (way.tries.load(std::memory_order_relaxed)) {
            if (count - way.before.load(std::memory_order_relaxed) < enough &&
                now < way.next.load(std::memory_order_relaxed))
                return true;
            way.wait.store(std::min(2 * way.wait.load(std::memory_order_relaxed), kLongest),
                           std::memory_order_relaxed);
            return rests(way, now);
        }
        if (now < way.next.load(std::memory_order_relaxed)) return false;
        if (way.next.load(std::memory_order_relaxed) == 0) return rests(way, now);
        way.before.store(count, std::memory_order_relaxed);
        way.next.store(now + kTrial, std::memory_order_relaxed);
        way.tries.store(true, std::memory_order_relaxed);
        return true;
    }
    static bool rests(Way& way, Time now) {
        way.tries.store(false, std::memory_order_relaxed);
        way.next.store(now + way.wait.load(std::memory_order_relaxed), std::memory_order_relaxed);
        return false;
    }

    std::array<Way, kClasses> ways_;
};

}  // namespace verbena::adapter
