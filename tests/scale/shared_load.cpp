// The price of many connections: two processes with COUNT RC queue pairs between them, over which one sends
// messages in turn, so many outstanding over all of them together.
//
//     shared_load COUNT send|write [BYTES]        prints millions of messages a second
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

#include "verbs_pair.h"

using namespace verbena::scale;

namespace {

constexpr unsigned kMessages = 400'000;
constexpr unsigned kOutstanding = 64;

struct Load {
    unsigned count;
    bool writes;
    std::uint32_t bytes;

    // Of each queue. One queue pair may lag behind the others, until its turn comes again.
    std::uint32_t depth() const { return count < kOutstanding ? kOutstanding : 2; }
};

void tell(int socket, const void* data, std::size_t size) {
    if (write(socket, data, size) != static_cast<ssize_t>(size)) fail("write");
}
void hear(int socket, void* data, std::size_t size) {
    if (recv(socket, data, size, MSG_WAITALL) != static_cast<ssize_t>(size)) fail("the other end");
}

void stay_on(int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    sched_setaffinity(0, sizeof set, &set);
}

class End {
   public:
    End(const Load& load, int socket)
        : load_(load), socket_(socket), memory_(std::size_t{kOutstanding} * load.bytes) {
        region_ = ibv_reg_mr(device_.pd, memory_.data(), memory_.size(),
                             IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        if (!region_) fail("ibv_reg_mr");
        for (unsigned i = 0; i < load.count; i++) qps_.push_back(device_.create_qp(load.depth()));
        const Peer mine{device_.gid, element(0).addr, region_->rkey};
        tell(socket_, &mine, sizeof mine);
        hear(socket_, &peer_, sizeof peer_);
        for (ibv_qp* qp : qps_) {
            std::uint32_t number = 0;
            tell(socket_, &qp->qp_num, sizeof qp->qp_num);
            hear(socket_, &number, sizeof number);
            connect(qp, peer_.gid, number);
        }
    }

    void receive() {
        for (unsigned n = 0; !load_.writes && n < load_.depth() * load_.count; n++)
            wait_for_one(n % load_.count);
        meet();
        unsigned received = 0;
        while (!load_.writes && received < kMessages)
            for (int left = poll(); left > 0; received++) wait_for_one(completions_[--left].wr_id);
        meet();
    }

    double send() {
        meet();
        const auto begin = std::chrono::steady_clock::now();
        unsigned posted = 0, completed = 0;
        while (completed < kMessages) {
            for (; posted < kMessages && posted - completed < kOutstanding; posted++) post(posted);
            completed += static_cast<unsigned>(poll());
        }
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        meet();
        return kMessages / took.count() / 1e6;
    }

   private:
    struct Peer {
        ibv_gid gid;
        std::uint64_t address;
        std::uint32_t rkey;
    };

    // A message's bytes.
    ibv_sge element(unsigned slot) const {
        return {reinterpret_cast<std::uintptr_t>(memory_.data()) + std::size_t{slot} * load_.bytes,
                load_.bytes, region_->lkey};
    }
    void meet() {
        char byte = 0;
        tell(socket_, &byte, 1);
        hear(socket_, &byte, 1);
    }
    void wait_for_one(std::uint64_t qp) { post_receive(qps_[qp], element(0), qp); }
    void post(unsigned number) {
        const unsigned slot = number % kOutstanding;
        ibv_sge sge = element(slot);
        ibv_send_wr wr{}, *bad;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.opcode = load_.writes ? IBV_WR_RDMA_WRITE : IBV_WR_SEND;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.wr.rdma.remote_addr = peer_.address + std::size_t{slot} * load_.bytes;
        wr.wr.rdma.rkey = peer_.rkey;
        if (ibv_post_send(qps_[number % load_.count], &wr, &bad)) fail("ibv_post_send");
    }
    int poll() {
        const int count = ibv_poll_cq(device_.cq, kBatch, completions_);
        if (count < 0) fail("ibv_poll_cq");
        for (int i = 0; i < count; i++)
            if (completions_[i].status != IBV_WC_SUCCESS) {
                std::fprintf(stderr, "a request ended with %s\n", ibv_wc_status_str(completions_[i].status));
                std::exit(1);
            }
        return count;
    }

    static constexpr int kBatch = 16;
    const Load load_;
    const int socket_;
    Device device_{load_.depth() * load_.count + kOutstanding};
    std::vector<std::uint8_t> memory_;
    ibv_mr* region_ = nullptr;
    Peer peer_{};
    std::vector<ibv_qp*> qps_;
    ibv_wc completions_[kBatch];
};

}  // namespace

int main(int count, char** words) {
    const Load load{count > 1 ? static_cast<unsigned>(std::atoi(words[1])) : 0,
                    count > 2 && std::string(words[2]) == "write",
                    count > 3 ? static_cast<std::uint32_t>(std::atoi(words[3])) : 64};
    if (load.count == 0 || count < 3 || load.bytes == 0) {
        std::fprintf(stderr, "shared_load COUNT send|write [BYTES]\n");
        return 2;
    }
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets)) fail("socketpair");
    const pid_t child = fork();  // before either has a device
    stay_on(child == 0 ? 0 : 1);
    close(sockets[child == 0 ? 0 : 1]);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        End(load, sockets[1]).receive();
        return 0;
    }
    End end(load, sockets[0]);
    std::printf("%.3f M messages/s\n", end.send());
    std::fflush(stdout);
    int status = 0;
    waitpid(child, &status, 0);
    return status != 0;
}
