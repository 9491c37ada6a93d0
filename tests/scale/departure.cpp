// A program that ends as soon as it has seen its last message, and destroys nothing: that message, which it
// has taken, succeeds for its sender. The message is a SEND that is polled for, or a WRITE that memory shows,
// alone or after a ping-pong of them. Prints nothing but failures.
#include <string>
#include <vector>

#include "two_processes.h"

using namespace verbena::scale;

namespace {

constexpr unsigned kRounds = 10;
constexpr unsigned kPings = 50;
constexpr std::uint8_t kLast = 200;
constexpr std::size_t kOutgoing = 100;  // where in the memory; what comes lies at its beginning

class End {
   public:
    explicit End(int socket) : socket_(socket), memory_(4096) {
        region_ = device_.register_memory(memory_.data(), memory_.size(),
                                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        qp_ = device_.create_qp(4);
        peer_ = join(socket, device_, qp_, region_);
    }
    void prepare() { post_receive(qp_, element(0, 8)); }
    void meet_peer() const { meet(socket_); }
    void send(ibv_wr_opcode opcode, std::uint8_t value) {
        memory_[kOutgoing] = value;
        post_send(qp_, element(kOutgoing, 1), opcode, peer_.memory);
    }
    ibv_wc_status completion() const {
        ibv_wc completion;
        while (ibv_poll_cq(device_.cq, 1, &completion) == 0) continue;
        return completion.status;
    }
    void see(std::uint8_t value) const {
        const volatile std::uint8_t* const place = memory_.data();
        while (*place != value) continue;
    }

   private:
    ibv_sge element(std::size_t at, std::uint32_t bytes) const {
        return {reinterpret_cast<std::uintptr_t>(memory_.data() + at), bytes, region_->lkey};
    }

    int socket_;
    Device device_{16};
    std::vector<std::uint8_t> memory_;
    ibv_mr* region_ = nullptr;
    ibv_qp* qp_ = nullptr;
    Peer peer_{};
};

struct Kind {
    const char* name;
    ibv_wr_opcode last;
    unsigned pings;
};
constexpr Kind kKinds[] = {{"a SEND", IBV_WR_SEND, 0},
                           {"a WRITE", IBV_WR_RDMA_WRITE, 0},
                           {"a WRITE after others", IBV_WR_RDMA_WRITE, kPings}};

void depart(const Kind& kind, int socket) {
    End& end = *new End(socket);  // nobody destroys it
    end.prepare();
    end.meet_peer();
    for (unsigned n = 1; n <= kind.pings; n++) {
        end.see(static_cast<std::uint8_t>(n));
        end.send(IBV_WR_RDMA_WRITE, static_cast<std::uint8_t>(n));
        end.completion();
    }
    if (kind.last == IBV_WR_SEND)
        end.completion();
    else
        end.see(kLast);
    std::exit(0);
}

void stay(const Kind& kind, int socket) {
    End& end = *new End(socket);
    end.meet_peer();
    for (unsigned n = 1; n <= kind.pings; n++) {
        end.send(IBV_WR_RDMA_WRITE, static_cast<std::uint8_t>(n));
        end.completion();
        end.see(static_cast<std::uint8_t>(n));
    }
    end.send(kind.last, kLast);
    const ibv_wc_status status = end.completion();
    if (status == IBV_WC_SUCCESS) return;
    std::fprintf(stderr, "%s, taken by a program that then ended: %s\n", kind.name,
                 ibv_wc_status_str(status));
    std::exit(1);
}

}  // namespace

int main() {
    int failed = 0;
    for (unsigned round = 0; round < kRounds; round++)
        for (const Kind& kind : kKinds) {
            const pid_t child = fork();
            if (child < 0) fail("fork");
            if (child == 0)
                std::exit(run_pair([&](int socket) { depart(kind, socket); },
                                   [&](int socket) { stay(kind, socket); }));
            int status = 0;
            waitpid(child, &status, 0);
            failed += status != 0;
        }
    return failed > 0;
}
