#include "adapter/waiting.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>

#include "adapter/clock.h"

namespace verbena::adapter {

timespec to_timespec(Time time) {
    return {static_cast<time_t>(time / kSecond), static_cast<long>(time % kSecond)};
}

namespace {

// A process may have been left fewer descriptors (ulimit -n) than are polled here: then poll(2) refuses.
int nap_instead(Time until) {
    constexpr Duration kNap = kMillisecond;
    const timespec time = to_timespec(until == 0 ? 0 : std::clamp<Time>(until - now(), 0, kNap));
    ppoll(nullptr, 0, &time, nullptr);
    errno = EINVAL;
    return -1;
}

}  // namespace

int poll_until(pollfd* fds, nfds_t count, Time until) {
    const bool looks = until == 0, waits = until == kNever;
    const timespec left = to_timespec(looks || waits ? 0 : std::max<Time>(until - now(), 0));
    const int ready = ppoll(fds, count, waits ? nullptr : &left, nullptr);
    return ready < 0 && errno == EINVAL ? nap_instead(until) : ready;
}

bool every_handler_restarts() {
    for (int number = 1; number < NSIG; number++) {
        if (number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL) continue;
        struct sigaction action;
        if (sigaction(number, nullptr, &action) != 0) continue;
        const bool handled = (action.sa_flags & SA_SIGINFO) != 0 ||
                             (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
        if (handled && !(action.sa_flags & SA_RESTART)) return false;
    }
    return true;
}

}  // namespace verbena::adapter
