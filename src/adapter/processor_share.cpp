#include "adapter/processor_share.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cinttypes>
#include <cstdio>
#include <utility>

namespace verbena::adapter {

ProcessorShare::~ProcessorShare() {
    if (file_ >= 0) close(file_);
}

// One file for all looks: it is the thread's that opened it.
bool ProcessorShare::is_small(Time now) {
    next_look_ = now + kLookEvery;
    if (file_ == kNotOpened) file_ = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    std::array<char, 80> text;
    const ssize_t length = file_ < 0 ? -1 : pread(file_, text.data(), text.size() - 1, 0);
    ProcessorTimes times;
    if (length <= 0) return false;
    text[static_cast<std::size_t>(length)] = 0;
    if (std::sscanf(text.data(), "%" SCNd64 " %" SCNd64, &times.ran, &times.waited) != 2) return false;
    return judge(times);
}

bool ProcessorShare::judge(const ProcessorTimes& times) {
    const ProcessorTimes before = std::exchange(before_, times);
    const Duration ran = times.ran - before.ran, waited = times.waited - before.waited;
    if (before.ran == 0) return false;  // a thread's first steps are among those of who made it
    if (ran + waited < kEnough) {
        before_ = before;
        return small_;
    }
    return small_ = 2 * waited > ran;
}

}  // namespace verbena::adapter
