#include "base/thread_number.h"

#include <atomic>

namespace verbena {

VERBENA_QUICK_THREAD_LOCAL constinit std::uint32_t thread_number = kNoThreadNumber;

void take_thread_number() {
    static std::atomic<std::uint32_t> taken{kNoThreadNumber};
    thread_number = taken.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace verbena
