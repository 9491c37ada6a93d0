// How fast requests of one length pass that go one way, where the link has two (direct_access.h): from the
// time at which the first of some that are out together was acknowledged. That one had to wait until the peer
// was at it, as had those that were acknowledged with it. Acknowledgements come in heaps, since the sender is
// busy in between: while more is out a measurement ends with a heap, never within one. What follows soon
// after all was acknowledged goes on with the measurement: then the sender is who takes the time, or the peer
// has answered, and the measurement is of rounds, which are shorter by the faster way.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"

namespace verbena::transport {

class PacketPace {
   public:
    static constexpr std::uint64_t kEnough = std::uint64_t{512} << 10;  // bytes: less says little
    // While more is out a measurement is of so long at least.
    static constexpr Duration kLeast = 250 * kMicrosecond;
    // Of rounds, which vary with the program, it is of so long and so many at least.
    static constexpr std::uint32_t kLeastRounds = 8;

    enum class Way : std::uint8_t {
        packets,  // of a WRITE that the link could have executed
        answers,  // to such a READ
        copied,   // a SEND, by both
        fetched   // ... by the peer
    };
    struct Sample {
        Way way;
        std::uint32_t length;  // of each
        std::uint64_t bytes;
        Duration took;
        bool rounds;  // at least half of them one by one
    };

    // ... that follows all others so soon: four times what each of them took, and so long at most. What was
    // longer would tell more of the program than of the way.
    static constexpr Duration kPause = kMillisecond;

    // One leaves. What is still out, of another way or length, does not count.
    void begins(std::uint32_t length, Way way, Time now) {
        const Duration pause = now - ended_;
        const bool goes_on = measures_sends_of(length, way) && ended_ != kNever && pause <= kPause &&
                             passed_ != 0 && pause * passed_ <= 4 * (ended_ - began_);
        began_ = now;
        ended_ = kNever;
        passed_ = 0;
        if (goes_on) {
            rounds_++;
            return;
        }
        length_ = length;
        way_ = way;
        since_ = kNever;
        bytes_ = heap_ = 0;
        rounds_ = 0;
    }
    // Something was lost, or others are at it: what it measures now it does not tell.
    void ends() { length_ = 0; }

    bool measures() const { return length_ != 0 && ended_ == kNever; }
    bool measures(std::uint32_t length, Way way) const {
        return measures() && length == length_ && way == way_;
    }
    bool is_of(std::uint32_t length) const { return length == length_; }
    bool measures_sends() const { return measures() && is_of_sends(way_); }
    // One was acknowledged.
    void passed(Time now) {
        passed_++;
        if (since_ == kNever) since_ = heap_at_ = now;
        if (now != heap_at_) {
            end_heap(heap_at_);
            heap_at_ = now;
        }
        if (now > since_) heap_ += length_;
    }
    // All that an answer acknowledges has passed; more is out, or not.
    std::optional<Sample> take(Time now, bool goes_on) {
        if (!measures()) return std::nullopt;
        if (!goes_on) end_heap(heap_at_ = ended_ = now);
        const bool rounds = 2 * rounds_ * std::uint64_t{length_} >= bytes_;
        if (bytes_ < kEnough || ((goes_on || rounds) && until_ - since_ < kLeast) ||
            (rounds && bytes_ < kLeastRounds * std::uint64_t{length_}))
            return std::nullopt;
        const Sample sample{way_, length_, bytes_, until_ - since_, rounds};
        since_ = until_;
        bytes_ = 0;
        rounds_ = 0;
        return sample;
    }

   private:
    void end_heap(Time at) {
        bytes_ += heap_;
        heap_ = 0;
        until_ = at;
    }
    // A WRITE or READ that comes alone is executed, and none of its pauses would count there.
    bool measures_sends_of(std::uint32_t length, Way way) const {
        return length == length_ && way == way_ && is_of_sends(way);
    }
    static bool is_of_sends(Way way) { return way == Way::copied || way == Way::fetched; }

    std::uint32_t length_ = 0;  // 0: none is measured
    Way way_ = Way::packets;
    Time since_ = kNever;       // the first was acknowledged, or the last sample ended
    std::uint64_t bytes_ = 0;   // acknowledged since then, by until_
    Time until_ = kNever;       // the heap before the newest
    Time heap_at_ = kNever;     // the newest
    std::uint64_t heap_ = 0;    // bytes; none of those that came with the first
    Time began_ = kNever;       // one left when nothing was out
    std::uint32_t passed_ = 0;  // since then
    std::uint32_t rounds_ = 0;  // begun of what bytes_ counts
    Time ended_ = kNever;       // nothing is out any more
};

}  // namespace verbena::transport
