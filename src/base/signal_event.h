// Making an eventfd(2) readable, which write() would do, too; but that is a cancellation point, and
// destructors come here, and who is waited for.
//
// Thread safety: all calls.
#pragma once

#include <cstdint>

#include "base/uncancelled.h"

namespace verbena {

inline void signal_event(int fd, std::uint64_t count = 1) {
    [[maybe_unused]] const auto size = uncancelled::write(fd, &count, sizeof count);
}

// It is not readable any more, until the next signal_event(). Of one that is O_NONBLOCK.
inline bool take_events(int fd) {
    std::uint64_t count;
    return uncancelled::read(fd, &count, sizeof count) == sizeof count;
}

}  // namespace verbena
