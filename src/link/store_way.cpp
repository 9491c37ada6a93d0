#include "link/store_way.h"

#include <algorithm>
#include <cstring>

#include "base/streaming_copy.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace verbena::link {

void StoreWay::copy(std::uint8_t* to, const void* from, std::size_t length) {
#if defined(__x86_64__)
    const bool streamed = streams();
    const std::uint64_t before = __rdtsc();
    if (streamed)
        streaming_copy(to, from, length);
    else
        std::memcpy(to, from, length);
    took(streamed, length, __rdtsc() - before);
#else
    std::memcpy(to, from, length);
#endif
}

void StoreWay::took(bool streamed, std::size_t length, std::uint64_t ticks) {
    const std::uint64_t each = std::max<std::uint64_t>((ticks << 10) / length, 1);
    if (!streamed) {
        if (--until_again_ == 0) to_measure_ = kMeasured;
        return each <= kPays * streamed_ ? plain_.paid() : plain_.in_vain();
    }
    if (to_measure_ > 0) to_measure_--;
    until_again_ = kAgain;
    // Not what an interruption took, nor page faults.
    const bool better = streamed_ == 0 || 2 * each < streamed_;
    streamed_ = better ? each : (7 * streamed_ + std::min(each, 2 * streamed_) + 7) / 8;
}

}  // namespace verbena::link
