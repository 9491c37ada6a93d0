// Many threads on one queue pair, one completion queue, one channel: every request completes exactly once.
// Also run under ThreadSanitizer (VERBENA_SANITIZE=thread).
#include <atomic>
#include <thread>

#include "harness.h"

namespace verbena::verbs_test {
namespace {

constexpr unsigned kThreads = 8;
constexpr unsigned kEach = 300;

Options shared_options() {
    Options options;
    options.with_channel = true;
    options.cqe = 2 * kThreads * kEach;
    options.cap.max_send_wr = options.cap.max_recv_wr = 256;
    return options;
}

// How often each wr_id completed.
class Tally {
   public:
    Tally() : seen_(kThreads * kEach) {}
    void add(const ibv_wc& wc) {
        EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
        if (wc.wr_id < seen_.size()) seen_[wc.wr_id]++;
        total_++;
    }
    bool full() const { return total_ >= kThreads * kEach; }
    void check() const {
        EXPECT_EQ(total_, kThreads * kEach);
        for (const auto& count : seen_) EXPECT_EQ(count, 1u);
    }

   private:
    std::vector<std::atomic<unsigned>> seen_;
    std::atomic<unsigned> total_{0};
};

void poll_into(ibv_cq* cq, Tally& tally, std::size_t batch) {
    std::vector<ibv_wc> completions(batch);
    const int count = ibv_poll_cq(cq, static_cast<int>(batch), completions.data());
    EXPECT_GE(count, 0);
    for (int i = 0; i < count; i++) tally.add(completions[static_cast<std::size_t>(i)]);
}

template <class Work>
void in_threads(Work work) {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; i++) threads.emplace_back(work, i);
    for (std::thread& thread : threads) thread.join();
}

TEST(Threads, PostAndPollOneQueuePair) {
    Pair pair(shared_options());
    Memory local(pair.a.pd, 64), remote(pair.b.pd, 64);
    Tally sent, received;
    in_threads([&](unsigned thread) {
        ibv_sge from = local.sge(0, 64), into = remote.sge(0, 64);
        for (unsigned i = 0; i < kEach; i++) {
            const std::uint64_t id = thread * kEach + i;
            int error;
            while ((error = pair.b.post_receive(id, into)) == ENOMEM)
                poll_into(pair.b.receive_cq, received, 4);
            ASSERT_EQ(error, 0);
            Request request(id, IBV_WR_SEND, &from, 1);
            while ((error = request.post(pair.a.qp)) == ENOMEM) poll_into(pair.a.send_cq, sent, 4);
            ASSERT_EQ(error, 0);
        }
        EXPECT_TRUE(wait_until([&] {
            poll_into(pair.a.send_cq, sent, 3);
            poll_into(pair.b.receive_cq, received, 5);
            return sent.full() && received.full();
        }));
    });
    sent.check();
    received.check();
}

// Threads that sleep in ibv_get_cq_event wake each other through the channel; none sleeps for ever.
TEST(Threads, SleepOnOneChannel) {
    Pair pair(shared_options());
    Memory local(pair.a.pd, 64), remote(pair.b.pd, 64);
    Tally sent, received;
    ASSERT_EQ(ibv_req_notify_cq(pair.b.receive_cq, 0), 0);
    std::atomic<bool> over{false};
    std::thread sender([&] {
        ibv_sge from = local.sge(0, 64), into = remote.sge(0, 64);
        for (std::uint64_t id = 0; id < kThreads * kEach; id++) {
            EXPECT_TRUE(wait_until([&] { return pair.b.post_receive(id, into) == 0; }));
            Request request(id, IBV_WR_SEND, &from, 1);
            EXPECT_TRUE(wait_until([&] {
                poll_into(pair.a.send_cq, sent, 16);
                return request.post(pair.a.qp) == 0;
            }));
        }
        EXPECT_TRUE(wait_until([&] {
            poll_into(pair.a.send_cq, sent, 16);
            return sent.full() && received.full();
        }));
        // Each sleeper needs an event to see that it is over.
        over = true;
        ibv_qp_attr error{};
        error.qp_state = IBV_QPS_ERR;
        EXPECT_EQ(ibv_modify_qp(pair.b.qp, &error, IBV_QP_STATE), 0);
        EXPECT_EQ(pair.b.post_receive(0, into), 0);
    });
    in_threads([&](unsigned) {
        for (;;) {
            ibv_cq* cq;
            void* context;
            ASSERT_EQ(ibv_get_cq_event(pair.b.channel, &cq, &context), 0);
            ibv_ack_cq_events(cq, 1);
            ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
            if (over) {
                EXPECT_EQ(pair.b.post_receive(0, nullptr, 0), 0);  // flushed: wakes the next
                return;
            }
            ibv_wc wc;
            while (ibv_poll_cq(cq, 1, &wc) > 0)
                if (wc.status == IBV_WC_SUCCESS) received.add(wc);
        }
    });
    sender.join();
    sent.check();
    received.check();
}

TEST(Threads, CreateAndDestroyBesideTraffic) {
    Pair pair(shared_options());
    Memory local(pair.a.pd, 4096), remote(pair.b.pd, 4096);
    std::atomic<bool> over{false};
    std::thread traffic([&] {
        ibv_sge sge = local.sge(0, 4096);
        while (!over) {
            Request request(1, IBV_WR_RDMA_WRITE, &sge, 1);
            ASSERT_EQ(request.to(remote).post(pair.a.qp), 0);
            success(pair.a.send_cq);
        }
    });
    in_threads([&](unsigned) {
        for (int i = 0; i < 20; i++) {
            Memory memory(pair.a.pd, 64);
            ibv_qp_init_attr setup = pair.a.setup();
            ibv_qp* qp = ibv_create_qp(pair.a.pd, &setup);
            ASSERT_TRUE(qp);
            ibv_qp_attr attributes;
            EXPECT_EQ(ibv_query_qp(qp, &attributes, IBV_QP_STATE, &setup), 0);
            EXPECT_EQ(ibv_destroy_qp(qp), 0);
        }
    });
    over = true;
    traffic.join();
}

}  // namespace
}  // namespace verbena::verbs_test
