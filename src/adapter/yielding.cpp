#include "adapter/yielding.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>

#include "adapter/clock.h"

namespace verbena::adapter {
namespace {

long involuntary_switches() {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
}

}  // namespace

Duration yield_to_others() {
    thread_local Duration usual = 0;
    const bool slow = usual > kSwitch;
    const long switches = slow ? involuntary_switches() : 0;
    const Time before = now();
    sched_yield();
    const Duration took = now() - before;
    const bool nobody = slow && took > kSwitch && involuntary_switches() == switches;
    usual += (std::min(took, 4 * kSwitch) - usual) / 8;
    return nobody ? 0 : took;
}

}  // namespace verbena::adapter
