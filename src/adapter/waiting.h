// Sleeping in ppoll(2), by times of our clock.
#pragma once

#include <poll.h>

#include <atomic>
#include <ctime>

#include "base/time.h"

namespace verbena::adapter {

// A descriptor that threads of the program wait for, and what is known of it without asking the kernel.
//
// Thread safety: all calls.
struct Awaited {
    explicit Awaited(int descriptor, bool is_counted = false) : fd(descriptor), counted(is_counted) {}

    const int fd;
    const bool counted;               // `events` tells whether it is readable
    std::atomic<unsigned> events{0};  // behind it, whether or not it has been made readable for them yet
    std::atomic<bool> blocks{false};  // it was not O_NONBLOCK when the kernel was asked last
};

timespec to_timespec(Time time);

// Until one of the descriptors is ready or `until` has come (kNever: for ever; now or earlier: not at all).
int poll_until(pollfd* fds, nfds_t count, Time until);

// Whether a blocking read() would go on after whatever signal has just come. poll() never does by itself, and
// does not tell which signal it was; so all handlers must agree, but for those of faults, which do not come
// to a thread that waits.
bool every_handler_restarts();

}  // namespace verbena::adapter
