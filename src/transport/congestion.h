// How much may be in flight: a window in bytes, because the receiver's buffer is what overflows and nobody
// advertises its size. It starts small, doubles per round trip, grows by a packet per round trip after the
// first loss, and halves at each loss (once per window). What it gives up: it does not know about other queue
// pairs of the same destination.
#pragma once

#include <algorithm>
#include <cstdint>

namespace verbena::transport {

class Congestion {
   public:
    static constexpr std::uint32_t kInitialWindow = 64 * 1024;
    static constexpr std::uint32_t kMinimumWindow = 8 * 1024;
    static constexpr std::uint32_t kMaximumWindow = 512 * 1024;
    // What a packet costs a receiver's socket beyond its payload.
    static constexpr std::uint32_t kPacketOverhead = 512;

    void reset() { *this = Congestion{}; }

    std::uint32_t window() const { return window_; }

    // One packet may always be in flight, however large.
    bool allows(std::uint32_t in_flight, std::uint32_t cost) const {
        return in_flight == 0 || in_flight + cost <= window_;
    }

    // `in_flight` as it was before: a window that is not used does not grow.
    void acknowledged(std::uint32_t cost, std::uint32_t in_flight) {
        if (in_flight < window_ / 2) return;
        if (window_ < threshold_)
            window_ = std::min(window_ + cost, kMaximumWindow);
        else if ((credit_ += cost) >= window_) {
            credit_ -= window_;
            window_ = std::min(window_ + kIncrease, kMaximumWindow);
        }
    }

    void lost() {
        threshold_ = std::max(window_ / 2, kMinimumWindow);
        window_ = threshold_;
        credit_ = 0;
    }

    // Nothing came back at all.
    void collapsed() {
        threshold_ = std::max(window_ / 2, kMinimumWindow);
        window_ = kMinimumWindow;
        credit_ = 0;
    }

   private:
    static constexpr std::uint32_t kIncrease = 8 * 1024;

    std::uint32_t window_ = kInitialWindow;
    std::uint32_t threshold_ = kMaximumWindow;
    std::uint32_t credit_ = 0;
};

static_assert(Congestion::kMaximumWindow / Congestion::kPacketOverhead <= 1024);

}  // namespace verbena::transport
