#include "adapter/clock.h"

#include "adapter/counter_clock.h"
#include "adapter/wall_time.h"

#if defined(__x86_64__)
#include <cpuid.h>
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
    // The kernel has found it to be constant and alike everywhere, or would tell time by something else. In a
    // virtual machine its clock is the host's, told by the counter, too, and the processor says whether that
    // is constant. (Where the machine moves to another host, the next measurement notices. Where its
    // processors' counters are apart, which hosts avoid, so are the times that they are told.)
    static bool usable() {
        const int before = errno;
        const int fd =
            open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
        char text[64];
        const ssize_t size = fd < 0 ? -1 : ::read(fd, text, sizeof text);
        if (fd >= 0) close(fd);
        errno = before;
        const std::string_view name(text, size > 0 ? static_cast<std::size_t>(size) : 0);
        return name == "tsc\n" ||
               (is_invariant() && (name == "kvm-clock\n" || name == "hyperv_clocksource_tsc_page\n"));
    }
    static bool is_invariant() {
        constexpr unsigned kLeaf = 0x80000007, kInvariant = 1u << 8;  // in edx
        unsigned a, b, c, d = 0;
        return __get_cpuid(kLeaf, &a, &b, &c, &d) && (d & kInvariant);
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

Time wall_time_of(Time time) {
    struct Clocks {
        static Time now() { return adapter::now(); }
        static Time wall() { return wall_clock(); }
    };
    static constinit WallTime<Clocks> wall;
    return wall.at(time);
}

}  // namespace verbena::adapter
