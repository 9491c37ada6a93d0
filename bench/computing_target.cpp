// A target that computes and never calls the library, or polls its completion queue, or sleeps, and what an
// initiator gets done against it: the first operation after a silence, and the bandwidth of many.
//
//     computing_target read|write computes|polls|sleeps      prints ms (median) and GB/s
//     computing_target atomic computes|polls|sleeps          prints ms (median)
#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "two_processes.h"

using namespace verbena::scale;

namespace {

constexpr std::uint32_t kBytes = 65536;
constexpr std::uint32_t kOutstanding = 16;
// Whoever served the target is asleep again after such a silence; and what the processors remember has gone,
// too, after a long one.
constexpr auto kLongSilence = std::chrono::milliseconds(100), kSilence = std::chrono::milliseconds(2);
constexpr unsigned kFirst = 15, kFirstAfterShort = 400;
constexpr auto kMeasured = std::chrono::seconds(1);

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

class End {
   public:
    explicit End(int socket) : memory_(kBytes) {
        region_ = device_.register_memory(memory_.data(), kBytes,
                                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                              IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
        qp_ = device_.create_qp(kOutstanding);
        peer_ = join(socket, device_, qp_, region_, kOutstanding);
        meet(socket);
    }

    // Until they are ended.
    [[noreturn]] static void compute() {
        for (volatile std::uint64_t sum = 0;;) sum = sum + 1;
    }
    [[noreturn]] void poll() const {
        for (ibv_wc completion;;) take_completions(device_.cq, &completion, 1);
    }

    [[noreturn]] static void sleep() {
        for (;;) pause();
    }

    double first_ms(ibv_wr_opcode opcode, std::chrono::milliseconds silence, unsigned count) {
        std::vector<double> ms;
        for (unsigned n = 0; n < count; n++) {
            std::this_thread::sleep_for(silence);
            const auto begin = Clock::now();
            post(opcode, 8);
            while (take_completions(device_.cq, completions_, 1) == 0) continue;
            ms.push_back(seconds_since(begin) * 1e3);
        }
        std::nth_element(ms.begin(), ms.begin() + count / 2, ms.end());
        return ms[count / 2];
    }

    double bandwidth(ibv_wr_opcode opcode) {
        const auto begin = Clock::now();
        std::uint64_t completed = 0;
        std::uint32_t outstanding = 0;
        for (bool over = false; !over || outstanding > 0; over = Clock::now() - begin > kMeasured) {
            for (; !over && outstanding < kOutstanding; outstanding++) post(opcode, kBytes);
            const int count = take_completions(device_.cq, completions_, kOutstanding);
            completed += static_cast<unsigned>(count);
            outstanding -= static_cast<unsigned>(count);
        }
        return double{kBytes} * static_cast<double>(completed) / seconds_since(begin) / 1e9;
    }

   private:
    ibv_sge element(std::uint32_t bytes) const {
        return {reinterpret_cast<std::uintptr_t>(memory_.data()), bytes, region_->lkey};
    }
    void post(ibv_wr_opcode opcode, std::uint32_t bytes) {
        post_send(qp_, element(bytes), opcode, peer_.memory);
    }

    Device device_{2 * kOutstanding};
    std::vector<std::uint8_t> memory_;
    ibv_mr* region_ = nullptr;
    ibv_qp* qp_ = nullptr;
    Peer peer_{};
    ibv_wc completions_[kOutstanding];
};

}  // namespace

int main(int count, char** words) {
    const std::map<std::string, ibv_wr_opcode> operations{
        {"read", IBV_WR_RDMA_READ}, {"write", IBV_WR_RDMA_WRITE}, {"atomic", IBV_WR_ATOMIC_FETCH_AND_ADD}};
    const auto operation = operations.find(count > 1 ? words[1] : "");
    const std::string target = count > 2 ? words[2] : "";
    if (operation == operations.end() || (target != "computes" && target != "polls" && target != "sleeps")) {
        std::fprintf(stderr, "computing_target read|write|atomic computes|polls|sleeps\n");
        return 2;
    }
    const ibv_wr_opcode opcode = operation->second;
    end(run_beside(
        [&](int socket) {
            const End end(socket);
            if (target == "computes") End::compute();
            if (target == "sleeps") End::sleep();
            end.poll();
        },
        [&](int socket) {
            End end(socket);
            const double first = target == "sleeps" ? end.first_ms(opcode, kSilence, kFirstAfterShort)
                                                    : end.first_ms(opcode, kLongSilence, kFirst);
            std::printf("first %.4f ms\n", first);
            if (opcode != IBV_WR_ATOMIC_FETCH_AND_ADD) std::printf("%.3f GB/s\n", end.bandwidth(opcode));
        }));
    return 0;
}
