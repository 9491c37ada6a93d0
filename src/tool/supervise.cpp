#include "tool/supervise.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tool/words.h"

namespace verbena::tool {
namespace {

// What the terminal stops it with stops us, too.
bool stops_the_job(int signal) { return signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU; }

// Waits until the program has ended. What the terminal sends reaches it anyway, being of our process group;
// what others send to us is passed on. A broken pipe of our own is nothing to it.
int wait_for(pid_t program, const sigset_t& signals, const Meanwhile& meanwhile) {
    constexpr timespec kInterval{0, 40'000'000};
    for (;;) {
        siginfo_t info{};
        const int received =
            meanwhile ? sigtimedwait(&signals, &info, &kInterval) : sigwaitinfo(&signals, &info);
        if (meanwhile) meanwhile();
        if (received < 0) continue;
        if (info.si_signo != SIGCHLD) {
            if (info.si_code <= 0 && info.si_pid != getpid()) kill(program, info.si_signo);
            continue;
        }
        int status = 0;
        if (waitpid(program, &status, WNOHANG | WUNTRACED) != program) continue;
        if (!WIFSTOPPED(status)) return status;
        // As the shell expects; SIGCONT goes to the group then. Who stops the program alone continues it
        // alone.
        if (stops_the_job(WSTOPSIG(status))) raise(SIGSTOP);
    }
}

}  // namespace

[[noreturn]] void die_of(int signal) {
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);  // the program has left one, if any
    ::signal(signal, SIG_DFL);
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal);
    raise(signal);
    sigprocmask(SIG_UNBLOCK, &one, nullptr);
    _exit(128 + signal);
}

int run_and_wait(const std::vector<std::string>& command, const Meanwhile& meanwhile) {
    sigset_t signals, before;
    sigfillset(&signals);
    for (const int ours : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTTIN, SIGTTOU, SIGTSTP})
        sigdelset(&signals, ours);
    sigprocmask(SIG_BLOCK, &signals, &before);
    const pid_t program = fork();
    if (program < 0) {
        std::fprintf(stderr, "verbena: fork: %s\n", std::strerror(errno));
        return 1 << 8;  // as if it had exited with 1
    }
    if (program == 0) {
        sigprocmask(SIG_SETMASK, &before, nullptr);
        _exit(become(command));
    }
    return wait_for(program, signals, meanwhile);
}

int end_as(int status, int instead_of_0) {
    if (WIFSIGNALED(status)) die_of(WTERMSIG(status));
    const int own = WEXITSTATUS(status);
    return own == 0 ? instead_of_0 : own;
}

bool tell_what_never_fired(const faults::Board& board) {
    bool all = true;
    for (unsigned index = 0; index < board.count(); index++) {
        if (board.fired(index) != 0 || !board.active(index)) continue;
        all = false;
        std::fprintf(stderr, "verbena: this fault never fired: %s (%llu passed that it is about)\n",
                     board.text(index), static_cast<unsigned long long>(board.seen(index)));
    }
    return all;
}

}  // namespace verbena::tool
