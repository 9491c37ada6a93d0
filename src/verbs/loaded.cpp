// What the kernel does at once for a process of one thread, and in a grace period (5 to 40 ms) once it has
// more: so it is asked when the library is loaded, which mostly is before main().
#include <sys/single_threaded.h>

#include <cerrno>

#include "base/heavy_barrier.h"
#include "base/own_file.h"

namespace verbena {
namespace {

[[gnu::constructor]] void while_there_is_one_thread() {
    if (!__libc_single_threaded) return;
    const int before = errno;
    allow_heavy_barriers();
    make_room_out_of_the_way();
    errno = before;
}

}  // namespace
}  // namespace verbena
