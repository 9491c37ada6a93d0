// Cycles of a message by stage: how long each call takes, and what lies between them, of messages that go one
// at a time between two programs that poll. Of the processor's constant counter, which the processors of a
// host share (and which costs some twenty itself, in each stage).
//
//     stages send|write|read|atomic [BYTES [COUNT]]        prints the median of each stage
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "two_processes.h"

using namespace verbena::scale;

namespace {

std::uint64_t cycles() {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    std::uint64_t value;
    asm volatile("isb; mrs %0, cntvct_el0" : "=r"(value));
    return value;
#else
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

class Stage {
   public:
    explicit Stage(const char* name) : name_(name) {}
    void took(std::uint64_t from, std::uint64_t to) { all_.push_back(to > from ? to - from : 0); }
    void print() {
        if (all_.empty()) return;
        const auto middle = all_.begin() + static_cast<std::ptrdiff_t>(all_.size() / 2);
        std::nth_element(all_.begin(), middle, all_.end());
        std::printf("%-48s %8llu\n", name_, static_cast<unsigned long long>(*middle));
    }

   private:
    const char* name_;
    std::vector<std::uint64_t> all_;
};

// When the other side had the message: what it tells of each, in memory that both share.
struct Arrivals {
    std::atomic<std::uint64_t> taken;
};

class End {
   public:
    End(int socket, std::uint32_t bytes) : socket_(socket), memory_(bytes) {
        region_ = device_.register_memory(memory_.data(), memory_.size(),
                                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                              IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
        qp_ = device_.create_qp(4);
        peer_ = join(socket, device_, qp_, region_);
    }

    void post(ibv_wr_opcode opcode) {
        const std::uint64_t begin = cycles();
        post_send(qp_, element(), opcode, peer_.memory);
        posted_at_ = cycles();
        posts_.took(begin, posted_at_);
    }
    void post_receive() {
        const std::uint64_t begin = cycles();
        verbena::scale::post_receive(qp_, element());
        receives_.took(begin, cycles());
    }
    // Polls until that comes, unless it has, and says when it was there.
    std::uint64_t wait_for(ibv_wc_opcode opcode, Stage& found) {
        if (const auto early = early_.extract(opcode)) return early.mapped();
        for (;;) {
            ibv_wc completion;
            const std::uint64_t begin = cycles();
            const int count = take_completions(device_.cq, &completion, 1);
            const std::uint64_t end = cycles();
            if (count == 0) {
                in_vain_.took(begin, end);
                continue;
            }
            if (completion.opcode == opcode) {
                found.took(begin, end);
                return end;
            }
            early_[completion.opcode] = end;
        }
    }

    void answer(Arrivals& arrivals, unsigned count) {
        post_receive();
        for (unsigned n = 0; n < count; n++) {
            arrivals.taken.store(wait_for(IBV_WC_RECV, arrived_), std::memory_order_release);
            post_receive();
            post(IBV_WR_SEND);
            wait_for(IBV_WC_SEND, completed_);
        }
    }
    void print_arrivals() {
        arrived_.print();
        std::fflush(stdout);
    }
    void ask(const Arrivals& arrivals, unsigned count) {
        Stage until_arrived("from there until the peer's program has it");
        for (unsigned n = 0; n < count; n++) {
            post_receive();
            post(IBV_WR_SEND);
            const std::uint64_t posted_at = posted_at_;
            wait_for(IBV_WC_SEND, completed_);
            wait_for(IBV_WC_RECV, arrived_);
            until_arrived.took(posted_at, arrivals.taken.load(std::memory_order_acquire));
        }
        meet(socket_);  // the other side has printed
        receives_.print();
        posts_.print();
        until_arrived.print();
        completed_.print();
        in_vain_.print();
    }
    void execute(ibv_wr_opcode opcode, ibv_wc_opcode completes_as, unsigned count) {
        Stage until_done("from there until it has completed");
        for (unsigned n = 0; n < count; n++) {
            post(opcode);
            until_done.took(posted_at_, wait_for(completes_as, completed_));
        }
        posts_.print();
        until_done.print();
        completed_.print();
        in_vain_.print();
    }
    [[noreturn]] void poll() const {
        for (ibv_wc completion;;) take_completions(device_.cq, &completion, 1);
    }

   private:
    ibv_sge element() const {
        return {reinterpret_cast<std::uintptr_t>(memory_.data()), static_cast<std::uint32_t>(memory_.size()),
                region_->lkey};
    }

    int socket_;
    Device device_{64};
    std::vector<std::uint8_t> memory_;
    ibv_mr* region_ = nullptr;
    ibv_qp* qp_ = nullptr;
    Peer peer_{};
    std::uint64_t posted_at_ = 0;
    std::map<ibv_wc_opcode, std::uint64_t> early_;
    Stage receives_{"the call that posts a receive"}, posts_{"the call that posts the request"},
        arrived_{"the peer's poll that finds a message"},
        completed_{"the poll that finds the request's completion"}, in_vain_{"a poll in vain"};
};

struct Kind {
    ibv_wr_opcode opcode;
    ibv_wc_opcode completes_as;
};
const std::map<std::string, Kind> kKinds{{"send", {IBV_WR_SEND, IBV_WC_SEND}},
                                         {"write", {IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE}},
                                         {"read", {IBV_WR_RDMA_READ, IBV_WC_RDMA_READ}},
                                         {"atomic", {IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD}}};

}  // namespace

int main(int count, char** words) {
    const auto kind = kKinds.find(count > 1 ? words[1] : "");
    const unsigned bytes = count > 2 ? static_cast<unsigned>(std::stoul(words[2])) : 8;
    const unsigned messages = count > 3 ? static_cast<unsigned>(std::stoul(words[3])) : 20000;
    if (kind == kKinds.end() || bytes < 8 ||
        (kind->second.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD && bytes > 8)) {
        std::fprintf(
            stderr,
            "stages send|write|read|atomic [BYTES [COUNT]], eight bytes or, but for an atomic, more\n");
        return 2;
    }
    void* const shared =
        mmap(nullptr, sizeof(Arrivals), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) fail("mmap");
    auto& arrivals = *new (shared) Arrivals{};
    const bool two_sided = kind->second.opcode == IBV_WR_SEND;
    end(run_beside(
        [&](int socket) {
            End end(socket, bytes);
            meet(socket);
            if (two_sided) {
                end.answer(arrivals, messages);
                end.print_arrivals();
                meet(socket);
            }
            end.poll();
        },
        [&](int socket) {
            End end(socket, bytes);
            meet(socket);
            if (two_sided)
                end.ask(arrivals, messages);
            else
                end.execute(kind->second.opcode, kind->second.completes_as, messages);
        }));
    return 0;
}
