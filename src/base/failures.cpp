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
    std::uint32_t qp_number;  // 0: nothing is here, or it is forgotten
    FailedPart part;
    char text[kLongest];
};

std::mutex lock;
std::array<Failure, kFailuresKept> ring;
std::size_t recorded = 0;           // since the start; the next one's place modulo kFailuresKept
std::atomic<bool> any_yet = false;  // so that programs without failures never take the lock

template <class Matches>
std::string newest(Matches matches) {
    for (std::size_t back = 1; back <= kFailuresKept && back <= recorded; back++) {
        const Failure& failure = ring[(recorded - back) % kFailuresKept];
        if (matches(failure)) return failure.text;
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
        Failure& failure = ring[recorded++ % kFailuresKept];
        failure.wr_id = wr_id;
        failure.qp_number = qp_number;
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
    for (Failure& failure : ring)
        if (failure.qp_number == qp_number) failure.qp_number = 0;
}

std::string failure_of_request(std::uint32_t qp_number, std::uint64_t wr_id) {
    std::lock_guard guard(lock);
    auto of_part = [=](FailedPart part, const Failure& failure) {
        return failure.qp_number == qp_number && failure.part == part;
    };
    std::string text = newest([=](const Failure& failure) {
        return failure.wr_id == wr_id &&
               (of_part(FailedPart::send, failure) || of_part(FailedPart::receive, failure));
    });
    if (text.empty())
        text = newest([=](const Failure& failure) { return of_part(FailedPart::peer_request, failure); });
    return text;
}

std::string failure_of_queue_pair(std::uint32_t qp_number) {
    std::lock_guard guard(lock);
    const std::size_t first = recorded > kFailuresKept ? recorded - kFailuresKept : 0;
    for (std::size_t at = first; at < recorded; at++)
        if (const Failure& failure = ring[at % kFailuresKept]; failure.qp_number == qp_number)
            return failure.text;
    return {};
}

void failures_forked() {
    new (&lock) std::mutex;
    recorded = 0;
}

}  // namespace verbena
