#include "base/failures.h"

#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>

#include "base/reason.h"

namespace verbena {
namespace {

constexpr std::size_t kLongest = 384;  // bytes of a sentence, with its end

struct Failure {
    std::uint64_t wr_id;
    FailedPart part;
    char text[kLongest];
};

std::mutex lock;
std::array<Failure, kFailuresKept> ring;
// The queue pair of each, by itself, since each new one looks through all; 0: none yet, or it is forgotten.
std::array<std::uint32_t, kFailuresKept> qp_numbers;
std::size_t recorded = 0;           // since the start; the next one's place modulo kFailuresKept
std::atomic<bool> any_yet = false;  // so that programs without failures never take the lock

template <class Matches>
std::string newest(Matches matches) {
    for (std::size_t back = 1; back <= kFailuresKept && back <= recorded; back++) {
        const std::size_t place = (recorded - back) % kFailuresKept;
        if (matches(ring[place], qp_numbers[place])) return ring[place].text;
    }
    return {};
}

}  // namespace

void record_failure(FailedPart part, std::uint32_t qp_number, std::uint64_t wr_id, const char* format, ...) {
    char text[kLongest];
    std::va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    {
        std::lock_guard guard(lock);
        const std::size_t place = recorded++ % kFailuresKept;
        Failure& failure = ring[place];
        qp_numbers[place] = qp_number;
        failure.wr_id = wr_id;
        failure.part = part;
        std::memcpy(failure.text, text, sizeof text);
        any_yet.store(true, std::memory_order_relaxed);
    }
    const auto id = static_cast<unsigned long long>(wr_id);
    switch (part) {
        case FailedPart::send:
            log(LogLevel::warn, "QP 0x%06x: send request wr_id 0x%llx failed: %s", qp_number, id, text);
            break;
        case FailedPart::receive:
            log(LogLevel::warn, "QP 0x%06x: receive request wr_id 0x%llx failed: %s", qp_number, id, text);
            break;
        case FailedPart::peer_request:
            log(LogLevel::warn, "QP 0x%06x: request of the peer refused: %s", qp_number, text);
            break;
        case FailedPart::queue_pair:
            break;
    }
}

void forget_failures(std::uint32_t qp_number) {
    if (!any_yet.load(std::memory_order_relaxed)) return;
    std::lock_guard guard(lock);
    // Without a branch several are compared at once.
    for (std::uint32_t& number : qp_numbers) number = number == qp_number ? 0 : number;
}

std::string failure_of_request(std::uint32_t qp_number, std::uint64_t wr_id) {
    std::lock_guard guard(lock);
    std::string text = newest([=](const Failure& failure, std::uint32_t number) {
        return number == qp_number && failure.wr_id == wr_id &&
               (failure.part == FailedPart::send || failure.part == FailedPart::receive);
    });
    if (text.empty())
        text = newest([=](const Failure& failure, std::uint32_t number) {
            return number == qp_number && failure.part == FailedPart::peer_request;
        });
    return text;
}

std::string failure_of_queue_pair(std::uint32_t qp_number) {
    std::lock_guard guard(lock);
    const std::size_t first = recorded > kFailuresKept ? recorded - kFailuresKept : 0;
    for (std::size_t at = first; at < recorded; at++)
        if (qp_numbers[at % kFailuresKept] == qp_number) return ring[at % kFailuresKept].text;
    return {};
}

void failures_forked() {
    new (&lock) std::mutex;
    recorded = 0;
}

}  // namespace verbena
