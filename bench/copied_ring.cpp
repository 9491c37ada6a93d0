// What the machine itself can do with messages that are copied through shared memory: one process copies them
// into a ring, in parts, the other out of it, and nothing else. By plain stores, or past the cache.
//
//     copied_ring plain|streamed BYTES
//                 prints GB/s
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <vector>

#include "base/streaming_copy.h"
#include "two_processes.h"

using namespace verbena::scale;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kRing = 1 << 19, kPart = 32 << 10;
constexpr std::uint64_t kTotal = std::uint64_t{4} << 30;

struct Ring {
    alignas(64) std::atomic<std::uint64_t> written;
    alignas(64) std::atomic<std::uint64_t> taken;
    alignas(64) std::array<std::uint8_t, kRing> data;
};

void take(Ring& ring, std::size_t length) {
    std::vector<std::uint8_t> into(length);
    for (std::uint64_t at = 0; at < kTotal; at += kPart) {
        while (ring.written.load(std::memory_order_acquire) < at + kPart) continue;
        std::memcpy(&into[at % length], &ring.data[at % kRing], kPart);
        ring.taken.store(at + kPart, std::memory_order_release);
    }
}

void write_all(Ring& ring, std::size_t length, bool streamed) {
    const std::vector<std::uint8_t> from(length, 1);
    for (std::uint64_t at = 0; at < kTotal; at += kPart) {
        while (ring.taken.load(std::memory_order_acquire) + kRing < at + kPart) continue;
        std::uint8_t* const to = &ring.data[at % kRing];
        if (streamed)
            verbena::streaming_copy(to, &from[at % length], kPart);
        else
            std::memcpy(to, &from[at % length], kPart);
        ring.written.store(at + kPart, std::memory_order_release);
    }
    while (ring.taken.load(std::memory_order_acquire) < kTotal) continue;
}

}  // namespace

int main(int count, char** words) {
    const std::string_view stores = count == 3 ? words[1] : "";
    const std::size_t length = count == 3 ? std::strtoul(words[2], nullptr, 10) : 0;
    if (length == 0 || length % kPart != 0 || (stores != "plain" && stores != "streamed")) {
        std::fprintf(stderr, "usage: copied_ring plain|streamed BYTES (a multiple of %zu)\n", kPart);
        return 2;
    }
    void* const memory =
        mmap(nullptr, sizeof(Ring), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail("mmap");
    Ring& ring = *new (memory) Ring{};
    const pid_t taker = start_on(1, [&] { take(ring, length); });
    stay_on(0);
    const Clock::time_point begin = Clock::now();
    write_all(ring, length, stores == "streamed");
    const std::chrono::duration<double> took = Clock::now() - begin;
    std::printf("%.2f GB/s\n", static_cast<double>(kTotal) / took.count() / 1e9);
    return !succeeded(taker);
}
