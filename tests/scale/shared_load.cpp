// The price of many connections: two processes with COUNT RC queue pairs between them, over which one sends
// messages in turn, so many outstanding over all of them together.
//
//     shared_load COUNT send|write [BYTES]        prints millions of messages a second
#include <chrono>
#include <string>
#include <vector>

#include "two_processes.h"

using namespace verbena::scale;

namespace {

constexpr unsigned kMessages = 400'000;
constexpr unsigned kOutstanding = 64;

struct Load {
    unsigned count;
    bool writes;
    std::uint32_t bytes;

    // Of each queue.
    std::uint32_t depth() const { return count < kOutstanding ? kOutstanding : 2; }
};

class End {
   public:
    End(const Load& load, int socket)
        : load_(load), socket_(socket), memory_(std::size_t{kOutstanding} * load.bytes) {
        region_ = device_.register_memory(memory_.data(), memory_.size(),
                                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        for (unsigned i = 0; i < load.count; i++) qps_.push_back(device_.create_qp(load.depth()));
        tell(socket_, Peer{device_.gid, {element(0).addr, region_->rkey}});
        peer_ = hear<Peer>(socket_);
        for (ibv_qp* qp : qps_) {
            tell(socket_, qp->qp_num);
            connect(qp, peer_.gid, hear<std::uint32_t>(socket_));
        }
    }

    void receive() {
        for (unsigned n = 0; !load_.writes && n < load_.depth() * load_.count; n++)
            wait_for_one(n % load_.count);
        meet(socket_);
        unsigned received = 0;
        while (!load_.writes && received < kMessages)
            for (int left = poll(); left > 0; received++) wait_for_one(completions_[--left].wr_id);
        meet(socket_);
    }

    double send() {
        meet(socket_);
        const auto begin = std::chrono::steady_clock::now();
        under_way_.assign(load_.count, 0);
        for (unsigned posted = 0; completed_ < kMessages; complete())
            while (posted < kMessages && posted - completed_ < kOutstanding) post(posted++);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        meet(socket_);
        return kMessages / took.count() / 1e6;
    }

   private:
    struct Peer {
        ibv_gid gid;
        Remote memory;
    };

    // A message's bytes.
    ibv_sge element(unsigned slot) const {
        return {reinterpret_cast<std::uintptr_t>(memory_.data()) + std::size_t{slot} * load_.bytes,
                load_.bytes, region_->lkey};
    }
    void wait_for_one(std::uint64_t qp) { post_receive(qps_[qp], element(0), qp); }
    // One queue pair may lag behind the others: then its turn waits.
    void post(unsigned number) {
        const unsigned slot = number % kOutstanding, qp = number % load_.count;
        while (under_way_[qp] == load_.depth()) complete();
        under_way_[qp]++;
        post_send(qps_[qp], element(slot), load_.writes ? IBV_WR_RDMA_WRITE : IBV_WR_SEND,
                  {peer_.memory.address + std::size_t{slot} * load_.bytes, peer_.memory.rkey}, qp);
    }
    void complete() {
        for (int left = poll(); left > 0; completed_++) under_way_[completions_[--left].wr_id]--;
    }
    int poll() { return take_completions(device_.cq, completions_, kBatch); }

    static constexpr int kBatch = 16;
    const Load load_;
    const int socket_;
    Device device_{load_.depth() * load_.count + kOutstanding};
    std::vector<std::uint8_t> memory_;
    ibv_mr* region_ = nullptr;
    Peer peer_{};
    std::vector<ibv_qp*> qps_;
    std::vector<std::uint8_t> under_way_;  // of each queue pair
    unsigned completed_ = 0;
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
    return run_pair([&](int socket) { End(load, socket).receive(); },
                    [&](int socket) { std::printf("%.3f M messages/s\n", End(load, socket).send()); });
}
