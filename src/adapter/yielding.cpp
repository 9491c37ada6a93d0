#include "adapter/yielding.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>

#include "adapter/clock.h"

namespace verbena::adapter {
namespace {

constexpr Duration kWatch = 32 * kMillisecond;

long involuntary_switches() {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
}

}  // namespace

Duration yield_to_others() {
    thread_local Duration usual = 0;
    thread_local Time watch_until = 0;
    Time before = now();
    const bool watched = usual > kSwitch || before < watch_until;
    const long switches = watched ? involuntary_switches() : 0;
    if (watched) before = now();
    sched_yield();
    const Time after = now();
    const Duration took = after - before;
    const bool nobody = watched && took > kSwitch && involuntary_switches() == switches;
    if (took > kLongYield) watch_until = after + kWatch;
    usual += (std::min(took, 4 * kSwitch) - usual) / 8;
    return nobody ? 0 : took;
}

}  // namespace verbena::adapter
