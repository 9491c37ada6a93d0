#include "adapter/processor_share.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cinttypes>
#include <cstdio>

#include "base/own_file.h"

namespace verbena::adapter {

ProcessorShare::~ProcessorShare() {
    if (file_ >= 0) close(file_);
}

// One file for all looks: it is the thread's that opened it.
std::optional<bool> ProcessorShare::is_small(Time now) {
    next_look_ = now + kLookEvery;
    if (file_ == kNotOpened)
        file_ = out_of_the_way(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
    std::array<char, 80> text;
    const ssize_t length = file_ < 0 ? -1 : pread(file_, text.data(), text.size() - 1, 0);
    ProcessorTimes times;
    if (length <= 0) return std::nullopt;
    text[static_cast<std::size_t>(length)] = 0;
    if (std::sscanf(text.data(), "%" SCNd64 " %" SCNd64, &times.ran, &times.waited) != 2) return std::nullopt;
    return judge(times, now);
}

std::optional<bool> ProcessorShare::judge(const ProcessorTimes& times, Time now) {
    if (now - judged_at_ > kForgotten) {
        judged_at_ = now;
        before_ = times;
        recent_ = {};
        return false;
    }
    const Duration ran = times.ran - before_.ran, waited = times.waited - before_.waited;
    if (ran < kEnough) return std::nullopt;
    judged_at_ = now;
    before_ = times;
    recent_.ran += ran;
    recent_.waited += waited;
    if (const Duration all = recent_.ran + recent_.waited; all > kRemembered) {
        recent_.ran = recent_.ran * kRemembered / all;
        recent_.waited = recent_.waited * kRemembered / all;
    }
    // One other that wants the processor makes it a third, if we have precedence (precedence.h).
    return recent_.waited >= kMuch && 4 * recent_.waited > recent_.ran;
}

}  // namespace verbena::adapter
