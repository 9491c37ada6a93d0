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
    const Duration ran = times.ran - before_.ran, waited = times.waited - before_.waited;
    const bool first = before_.ran == 0;  // how a thread began says more of who made it
    if (!first && ran < kEnough) return std::nullopt;
    before_ = times;
    if (first) return std::nullopt;
    if (now - judged_at_ > kForgotten) recent_ = {};
    judged_at_ = now;
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
