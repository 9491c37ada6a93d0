#include "tool/inherited.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

namespace verbena::tool {
namespace {

bool ignored_children = false;  // SIGCHLD: the kernel waits for them, and waitpid() finds none

}  // namespace

void set_right_what_is_inherited() {
    // The lowest number that is free is the one that is taken. O_CLOEXEC: programs find it closed again.
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0) open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
    ignored_children = signal(SIGCHLD, SIG_DFL) == SIG_IGN;
}

void put_back_what_was_inherited() {
    if (ignored_children) signal(SIGCHLD, SIG_IGN);
}

}  // namespace verbena::tool
