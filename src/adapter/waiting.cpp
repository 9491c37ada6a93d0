#include "adapter/waiting.h"

#include <signal.h>

#include <algorithm>

#include "adapter/clock.h"

namespace verbena::adapter {

timespec to_timespec(Time time) {
    return {static_cast<time_t>(time / kSecond), static_cast<long>(time % kSecond)};
}

int poll_until(pollfd* fds, nfds_t count, Time until) {
    if (until == kNever) return ppoll(fds, count, nullptr, nullptr);
    const timespec left = to_timespec(until == 0 ? 0 : std::max<Time>(until - now(), 0));
    return ppoll(fds, count, &left, nullptr);
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
