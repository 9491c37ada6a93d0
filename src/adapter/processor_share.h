// Whether a thread that wants a processor has to share it, as its scheduler tells: for how long it ran, and
// for how long it waited until it could. Peers that have much to hand over then rather do it all by
// themselves.
//
// Thread safety: one thread, the one that is asked about.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"

namespace verbena::adapter {

// Since the thread began.
struct ProcessorTimes {
    Duration ran = 0, waited = 0;
};

class ProcessorShare {
   public:
    ProcessorShare() = default;
    ~ProcessorShare();
    ProcessorShare(const ProcessorShare&) = delete;
    ProcessorShare& operator=(const ProcessorShare&) = delete;

    // Whether it is time to ask, which is a system call. To be asked first when the thread begins: later it
    // may not be allowed to.
    bool is_due(Time now) const { return now >= next_look_; }
    // Nothing: too little happened since the last answer, or the scheduler does not tell.
    std::optional<bool> is_small(Time now);

    // What is_small() makes of them.
    std::optional<bool> judge(const ProcessorTimes& times, Time now);

    // Of running and waiting, so much is remembered; and nothing of before or within a longer silence, after
    // which the share counts as large, for a start.
    static constexpr Duration kRemembered = 8 * kMillisecond, kForgotten = 3 * kMillisecond;
    // To wait for less is no habit: something else had the processor for a moment.
    static constexpr Duration kMuch = kMillisecond;

   private:
    static constexpr Duration kLookEvery = 250 * kMicrosecond;
    static constexpr Duration kEnough = 100 * kMicrosecond;  // of running, for a judgement
    static constexpr int kNotOpened = -2;

    Time next_look_ = 0;
    int file_ = kNotOpened;
    ProcessorTimes before_, recent_;
    Time judged_at_ = INT64_MIN / 2;
};

}  // namespace verbena::adapter
