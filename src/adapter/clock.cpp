#include "adapter/clock.h"

#include "adapter/counter_clock.h"

#if defined(__x86_64__)
#include <fcntl.h>
#include <unistd.h>
#include <x86intrin.h>

#include <cerrno>
#include <string_view>
#endif

namespace verbena::adapter {
namespace {

Time system_clock() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return Time{t.tv_sec} * kSecond + t.tv_nsec;
}

#if defined(__x86_64__)
struct TimeStampCounter {
    // The kernel has found it to be constant and alike everywhere, or would tell time by something else.
    static bool usable() {
        const int before = errno;
        const int fd =
            open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
        char name[16] = {};
        const ssize_t size = fd < 0 ? -1 : ::read(fd, name, sizeof name);
        if (fd >= 0) close(fd);
        errno = before;
        return size == 4 && std::string_view(name, 4) == "tsc\n";
    }
    static std::uint64_t ticks() { return __rdtsc(); }
    static Time time() { return system_clock(); }
};
constinit CounterClock<TimeStampCounter> counter;
#endif

}  // namespace

#if defined(__x86_64__)
Time now() { return counter.now(); }
#else
Time now() { return system_clock(); }  // its counter is as cheap as ours would be
#endif

}  // namespace verbena::adapter
