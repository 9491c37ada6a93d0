// What is looked at, and what is asked of the kernel, when the library is loaded, which mostly is before
// main(): the kernel does it at once for a process of one thread, and in a grace period (5 to 40 ms) once it
// has more.
#include <sys/single_threaded.h>

#include <cerrno>

#include "base/heavy_barrier.h"
#include "base/own_file.h"
#include "base/standard_error.h"
#include "verbs/last_thread.h"

namespace verbena {
namespace {

[[gnu::constructor]] void at_load() {
    const int before = errno;
    remember_standard_error();
    if (__libc_single_threaded) {
        allow_heavy_barriers();
        make_room_out_of_the_way();
    }
    verbs::notice_when_the_first_thread_leaves();
    errno = before;
}

}  // namespace
}  // namespace verbena
