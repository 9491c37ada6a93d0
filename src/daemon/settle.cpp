#include "daemon/settle.h"

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <array>

#include "host/own_limits.h"

namespace verbena::daemon {
namespace {

// Where the first process of all may run: not on processors that somebody has set apart for a program.
void leave_processors() {
    constexpr pid_t kFirstProcess = 1;
    constexpr std::size_t kProcessors = 8192;  // the most that Linux has
    std::array<cpu_set_t, kProcessors / CPU_SETSIZE> processors{};
    if (sched_getaffinity(kFirstProcess, sizeof processors, processors.data()) == 0)
        sched_setaffinity(0, sizeof processors, processors.data());
}

}  // namespace

void settle(bool by_program) {
    for (int number : {SIGCHLD, SIGTERM, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM}) signal(number, SIG_DFL);
    // A file that may not grow is an error of whoever asked for it.
    for (int number : {SIGPIPE, SIGHUP, SIGXFSZ}) signal(number, SIG_IGN);
    umask(077);
    host::raise_limits();
    if (!by_program) return;
    leave_processors();
    const sched_param none{};
    sched_setscheduler(0, SCHED_OTHER, &none);
    setpriority(PRIO_PROCESS, 0, 0);
}

}  // namespace verbena::daemon
