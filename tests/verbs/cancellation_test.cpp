// A thread that somebody cancels (pthread_cancel(3)) ends where it waits for an event, and nowhere else in a
// call: with a device these are no calls of the C library at all, and programs that cancel their polling
// thread, as rping does, go on to destroy what it used.
#include <pthread.h>
#include <sched.h>

#include <thread>

#include "base/cancellation_testing.h"
#include "harness.h"

namespace verbena::verbs_test {
namespace {

void poll_for(ibv_cq* cq, std::uint64_t wr_id) {
    ibv_wc completion{};
    const auto until = Clock::now() + std::chrono::milliseconds(kPatienceMs);
    while (ibv_poll_cq(cq, 1, &completion) == 0 && Clock::now() < until) sched_yield();
    EXPECT_EQ(completion.wr_id, wr_id);
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
}

void exchange(Pair& pair, Memory& from, Memory& into, std::size_t bytes) {
    ASSERT_EQ(pair.b.post_receive(1, into.sge(0, bytes)), 0);
    ibv_sge sge = from.sge(0, bytes);
    ASSERT_EQ(Request(2, IBV_WR_SEND, &sge, 1).post(pair.a.qp), 0);
    poll_for(pair.b.receive_cq, 1);
    poll_for(pair.a.send_cq, 2);
    for (const ibv_wr_opcode operation : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
        Request request(3, operation, &sge, 1);
        ASSERT_EQ(request.to(into).post(pair.a.qp), 0);
        poll_for(pair.a.send_cq, 3);
    }
}

TEST(Cancellation, PostingAndPollingGoOn) {
    Options options;
    options.with_channel = true;
    Pair pair(options);
    constexpr std::size_t kLarge = 1 << 20;
    Memory from(pair.a.pd, kLarge), into(pair.b.pd, kLarge);
    EXPECT_TRUE(is_through_although_cancelled([&] {
        for (const std::size_t bytes : {std::size_t{8}, kLarge}) exchange(pair, from, into, bytes);
        EXPECT_EQ(ibv_req_notify_cq(pair.b.receive_cq, 0), 0);
    }));
    exchange(pair, from, into, 8);
}

TEST(Cancellation, WhatIsBegunIsMadeAndTakenAway) {
    EXPECT_TRUE(is_through_although_cancelled([&] {
        Options options;
        options.with_channel = true;
        Pair pair(options);
        Memory from(pair.a.pd, 64), into(pair.b.pd, 64);
        exchange(pair, from, into, 64);
        EXPECT_EQ(pair.a.to_state(IBV_QPS_ERR), 0);
        ibv_ah* const address = address_handle(pair.a.pd, pair.b.gid());
        ASSERT_NE(address, nullptr);
        EXPECT_EQ(ibv_destroy_ah(address), 0);
        ibv_port_attr port;
        EXPECT_EQ(ibv_query_port(pair.a.context, 1, &port), 0);
    }));
}

// It sleeps for an event, is cancelled, and nothing that it had stays locked.
TEST(Cancellation, WhoWaitsForAnEventIsEndedThere) {
#ifdef VERBENA_THREAD_SANITIZER
    GTEST_SKIP() << "ThreadSanitizer overlooks locks that a thread takes while it is cancelled in a wait";
#endif
    Options options;
    options.with_channel = true;
    Pair pair(options);
    Memory from(pair.a.pd, 64), into(pair.b.pd, 64);
    for (unsigned round = 0; round < 10; round++) {
        std::atomic<bool> came{false};
        std::thread waiting([&] {
            EXPECT_EQ(ibv_req_notify_cq(pair.b.receive_cq, 0), 0);
            ibv_cq* cq;
            void* context;
            came = true;
            ibv_get_cq_event(pair.b.channel, &cq, &context);
            ADD_FAILURE() << "nothing has come";
        });
        while (!came) sched_yield();
        pthread_cancel(waiting.native_handle());
        waiting.join();
        exchange(pair, from, into, 64);
        ibv_cq* cq;
        void* context;
        ASSERT_EQ(ibv_get_cq_event(pair.b.channel, &cq, &context), 0);  // it was armed
        ibv_ack_cq_events(cq, 1);
    }
}

}  // namespace
}  // namespace verbena::verbs_test
