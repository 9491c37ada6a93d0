#include "base/heavy_barrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "base/features.h"

namespace verbena {
namespace {

bool membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }

}  // namespace

namespace detail {
constinit std::atomic<bool> heavy_barriers{false};
}

bool allow_heavy_barriers() {
    if (heavy_barriers_allowed()) return true;
    const int before = errno;
    const bool allowed = features().membarrier && membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
                         membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    errno = before;
    if (allowed) detail::heavy_barriers.store(true);
    return allowed;
}

void heavy_barrier() {
    __sync_synchronize();
    if (!heavy_barriers_allowed()) return;  // then the light ones are full barriers
    const int before = errno;
    if (!membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) && !membarrier(MEMBARRIER_CMD_GLOBAL)) {
        // The program has forbidden itself the call since (seccomp). What a processor has in its store buffer
        // is with the others in well under a microsecond.
        // (Not by a function that is a cancellation point.)
        timespec rest{0, 1'000'000};
        while (syscall(SYS_nanosleep, &rest, &rest) != 0 && errno == EINTR) {
        }
    }
    errno = before;
}

}  // namespace verbena
