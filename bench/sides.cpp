// What a stream of small SENDs takes of each side: of the sender while the receiver is away, of the receiver
// while the messages wait, and of both when they work at the same time, by turns of a few microseconds in one
// run. What "together" has more than the slower of the two is what they wait for each other, mostly for cache
// lines.
//
//     sides [LIST]        prints medians, in nanoseconds for each message; LIST (1) are posted by one call
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "two_processes.h"

using namespace verbena::scale;

namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kBytes = 8;
constexpr unsigned kRounds = 40, kTurns = 200;  // of bursts in each round
constexpr unsigned kBurst = 96;                 // messages
constexpr unsigned kStream = 12288;             // likewise
constexpr unsigned kSignaledEach = 32, kOutstanding = 128;
constexpr unsigned kDepth = 512;
constexpr std::size_t kMostInList = 16;

// Whose turn it is: the sides count on by turns, the sender first.
struct Turns {
    void wait_for(unsigned number) const {
        while (turn.load(std::memory_order_acquire) < number) {
        }
    }
    void finish(unsigned number) { turn.store(number, std::memory_order_release); }

    alignas(64) std::atomic<unsigned> turn{0};
};

class Median {
   public:
    template <class Work>
    void of(unsigned messages, Work work) {
        const auto begin = Clock::now();
        work();
        all_.push_back(std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / messages);
    }
    double value() {
        const auto middle = all_.begin() + static_cast<std::ptrdiff_t>(all_.size() / 2);
        std::nth_element(all_.begin(), middle, all_.end());
        return *middle;
    }

   private:
    std::vector<double> all_;
};

class End {
   public:
    explicit End(int socket) {
        region_ = device_.register_memory(memory_.data(), memory_.size());
        qp_ = device_.create_qp(kDepth);
        join(socket, device_, qp_, region_);
        element_ = {reinterpret_cast<std::uintptr_t>(memory_.data()), kBytes, region_->lkey};
    }

    void post_receives(unsigned count) {
        for (unsigned i = 0; i < count; i++) post_receive(qp_, element_);
    }
    void take(unsigned messages) {
        for (unsigned taken = 0; taken < messages;) {
            const unsigned count = poll();
            post_receives(count);
            taken += count;
        }
    }
    void post(unsigned messages, unsigned together) {
        std::array<ibv_send_wr, kMostInList> list;
        for (unsigned i = 0; i < messages; i += together) {
            for (unsigned k = 0; k < together; k++) {
                list[k] = {};
                list[k].sg_list = &element_;
                list[k].num_sge = 1;
                list[k].opcode = IBV_WR_SEND;
                if (++posted_ % kSignaledEach == 0) list[k].send_flags = IBV_SEND_SIGNALED;
                list[k].next = k + 1 < together ? &list[k + 1] : nullptr;
            }
            ibv_send_wr* bad;
            if (ibv_post_send(qp_, list.data(), &bad)) fail("ibv_post_send");
        }
    }
    // Until no more than so many are outstanding.
    void complete(unsigned outstanding) {
        while (posted_ - completed_ > outstanding) completed_ += kSignaledEach * poll();
    }
    // With as many outstanding as may be.
    void stream(unsigned messages, unsigned together) {
        for (unsigned i = 0; i < messages; i += together) {
            complete(kOutstanding);
            post(together, together);
        }
        complete(0);
    }

   private:
    unsigned poll() {
        std::array<ibv_wc, 16> completions;
        const int count = ibv_poll_cq(device_.cq, static_cast<int>(completions.size()), completions.data());
        if (count < 0) fail("ibv_poll_cq");
        for (int i = 0; i < count; i++)
            if (completions[static_cast<std::size_t>(i)].status != IBV_WC_SUCCESS) fail("a completion");
        return static_cast<unsigned>(count);
    }

    Device device_{2 * kDepth};
    std::vector<std::uint8_t> memory_ = std::vector<std::uint8_t>(kBytes);
    ibv_mr* region_ = nullptr;
    ibv_qp* qp_ = nullptr;
    ibv_sge element_{};
    unsigned posted_ = 0, completed_ = 0;
};

void receive(int socket, Turns& turns) {
    End end(socket);
    end.post_receives(kDepth - 1);
    meet(socket);
    Median alone;
    for (unsigned round = 0, turn = 0; round < kRounds; round++) {
        for (unsigned i = 0; i < kTurns; i++) {
            turns.wait_for(++turn);
            alone.of(kBurst, [&] { end.take(kBurst); });
            turns.finish(++turn);
        }
        turns.wait_for(++turn);
        end.take(kStream);
        turns.finish(++turn);
    }
    std::printf("receiver alone   %6.1f\n", alone.value());
    std::fflush(stdout);
    meet(socket);
}

void send(int socket, Turns& turns, unsigned together) {
    End end(socket);
    meet(socket);
    Median posts, completes, streams;
    for (unsigned round = 0, turn = 0; round < kRounds; round++) {
        for (unsigned i = 0; i < kTurns; i++) {
            posts.of(kBurst, [&] { end.post(kBurst, together); });
            turns.finish(++turn);
            turns.wait_for(++turn);
            completes.of(kBurst, [&] { end.complete(0); });
        }
        turns.finish(++turn);
        streams.of(kStream, [&] { end.stream(kStream, together); });
        turns.wait_for(++turn);
    }
    meet(socket);  // the other side has printed
    std::printf("sender alone     %6.1f   to post, and %.1f to complete\n", posts.value(), completes.value());
    std::printf("both together    %6.1f\n", streams.value());
}

}  // namespace

int main(int count, char** words) {
    const unsigned together = count > 1 ? static_cast<unsigned>(std::stoul(words[1])) : 1;
    if (together == 0 || together > kMostInList || kSignaledEach % together != 0) {
        std::fprintf(stderr, "sides [LIST], 1, 2, 4, 8 or 16\n");
        return 2;
    }
    void* const shared =
        mmap(nullptr, sizeof(Turns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) fail("mmap");
    auto& turns = *new (shared) Turns{};
    end(run_beside([&](int socket) { receive(socket, turns); },
                   [&](int socket) { send(socket, turns, together); }));
    return 0;
}
