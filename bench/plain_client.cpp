// A program as an ordinary user writes it: one completion queue, every request signaled, nothing inline, one
// completion a poll. Two processes, one RC queue pair between them.
//
//     plain_client latency [COUNT]        8 bytes there and back; prints half of that, in us, median
//     plain_client bandwidth [COUNT]      SENDs of 64 KiB, one completion for each; prints GB/s
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "two_processes.h"

using namespace verbena::scale;

namespace {

constexpr std::uint32_t kSmall = 8, kLarge = 65536;
constexpr std::uint32_t kDepth = 128;  // requests of each queue

using Clock = std::chrono::steady_clock;

class End {
   public:
    End(int socket, std::uint32_t bytes) : socket_(socket), memory_(std::size_t{2} * bytes), bytes_(bytes) {
        region_ = device_.register_memory(memory_.data(), memory_.size());
        qp_ = device_.create_qp(kDepth);
        join(socket, device_, qp_, region_);
    }

    void answer(unsigned count) {
        post_receive(qp_, element(1));
        meet(socket_);
        for (unsigned n = 0; n < count; n++) {
            wait_for(IBV_WC_RECV);
            post_receive(qp_, element(1));
            post_send(qp_, element(0));
            wait_for(IBV_WC_SEND);
        }
        meet(socket_);
    }

    double latency(unsigned count) {
        std::vector<double> us;
        post_receive(qp_, element(1));
        meet(socket_);
        for (unsigned n = 0; n < count; n++) {
            const auto begin = Clock::now();
            post_send(qp_, element(0));
            wait_for(IBV_WC_SEND);
            wait_for(IBV_WC_RECV);
            us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / 2);
            post_receive(qp_, element(1));
        }
        meet(socket_);
        std::nth_element(us.begin(), us.begin() + count / 2, us.end());
        return us[count / 2];
    }

    void receive(unsigned count) {
        for (unsigned n = 0; n < kDepth; n++) post_receive(qp_, element(1));
        meet(socket_);
        for (unsigned n = 0; n < count; n++) {
            wait_for(IBV_WC_RECV);
            post_receive(qp_, element(1));
        }
        meet(socket_);
    }

    double bandwidth(unsigned count) {
        meet(socket_);
        const auto begin = Clock::now();
        for (unsigned n = 0; n < count; n++) {
            if (n >= kDepth) wait_for(IBV_WC_SEND);
            post_send(qp_, element(0));
        }
        for (unsigned n = 0; n < std::min(count, kDepth); n++) wait_for(IBV_WC_SEND);
        const std::chrono::duration<double> took = Clock::now() - begin;
        meet(socket_);
        return static_cast<double>(bytes_) * count / took.count() / 1e9;
    }

   private:
    // 0: what is sent, 1: where it is received.
    ibv_sge element(unsigned which) const {
        return {reinterpret_cast<std::uintptr_t>(memory_.data()) + std::size_t{which} * bytes_, bytes_,
                region_->lkey};
    }
    // A receive may complete before the send of before does: it is kept.
    void wait_for(ibv_wc_opcode opcode) {
        unsigned& kept = opcode == IBV_WC_RECV ? received_ : sent_;
        while (kept == 0) {
            ibv_wc completion;
            if (take_completions(device_.cq, &completion, 1) == 0) continue;
            (completion.opcode == IBV_WC_RECV ? received_ : sent_)++;
        }
        kept--;
    }

    const int socket_;
    Device device_{2 * kDepth};
    std::vector<std::uint8_t> memory_;
    const std::uint32_t bytes_;
    ibv_mr* region_ = nullptr;
    ibv_qp* qp_ = nullptr;
    unsigned received_ = 0, sent_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    const unsigned count = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 20'000;
    if ((what != "latency" && what != "bandwidth") || count == 0) {
        std::fprintf(stderr, "plain_client latency|bandwidth [COUNT]\n");
        return 2;
    }
    if (what == "latency")
        return run_pair([&](int socket) { End(socket, kSmall).answer(count); },
                        [&](int socket) { std::printf("%.3f us\n", End(socket, kSmall).latency(count)); });
    return run_pair([&](int socket) { End(socket, kLarge).receive(count); },
                    [&](int socket) { std::printf("%.3f GB/s\n", End(socket, kLarge).bandwidth(count)); });
}
