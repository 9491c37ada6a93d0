// The flags of send requests, each by its meaning, and the notifications of a completion queue.
#include <unistd.h>

#include <thread>

#include "harness.h"

namespace verbena::verbs_test {
namespace {

int receive_many(Side& side, Memory& memory, int count) {
    for (int i = 0; i < count; i++)
        if (int error = side.post_receive(static_cast<std::uint64_t>(i), memory.sge(0, 64))) return error;
    return 0;
}

TEST(Signaled, UnsignaledRequestsCompleteSilently) {
    Pair pair;
    Memory local(pair.a.pd, 64), remote(pair.b.pd, 64);
    ASSERT_EQ(receive_many(pair.b, remote, 11), 0);
    ibv_sge sge = local.sge(0, 64);
    for (std::uint64_t id = 0; id <= 10; id++)
        ASSERT_EQ(Request(id, IBV_WR_SEND, &sge, 1, id == 10 ? IBV_SEND_SIGNALED : 0).post(pair.a.qp), 0);
    EXPECT_EQ(success(pair.a.send_cq).wr_id, 10u);
    EXPECT_TRUE(empty(pair.a.send_cq));
    for (std::uint64_t id = 0; id <= 10; id++) EXPECT_EQ(success(pair.b.receive_cq).wr_id, id);
}

TEST(Signaled, UnsignaledRequestsFreeTheQueue) {
    Options options;
    options.cap.max_send_wr = 8;
    Pair pair(options);
    Memory local(pair.a.pd, 64), remote(pair.b.pd, 64);
    ibv_sge sge = local.sge(0, 64);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 8; i++) {
            Request request(1, IBV_WR_RDMA_WRITE, &sge, 1, i == 7 ? IBV_SEND_SIGNALED : 0);
            ASSERT_EQ(request.to(remote).post(pair.a.qp), 0) << round << " " << i;
        }
        success(pair.a.send_cq);
    }
}

TEST(Signaled, SqSigAllCountsEveryRequest) {
    Options options;
    options.signal_all = true;
    Pair pair(options);
    Memory local(pair.a.pd, 64), remote(pair.b.pd, 64);
    ASSERT_EQ(receive_many(pair.b, remote, 11), 0);
    ibv_sge sge = local.sge(0, 64);
    for (std::uint64_t id = 0; id <= 10; id++)
        ASSERT_EQ(Request(id, IBV_WR_SEND, &sge, 1, id == 10 ? IBV_SEND_SIGNALED : 0).post(pair.a.qp), 0);
    for (std::uint64_t id = 0; id <= 10; id++) EXPECT_EQ(success(pair.a.send_cq).wr_id, id);
    EXPECT_TRUE(empty(pair.a.send_cq));
}

// IBA 10.7.3.1: a failure is always reported, and what is flushed behind it too.
TEST(Signaled, UnsignaledFailuresAreReported) {
    Pair pair;
    Memory local(pair.a.pd, 64);
    ibv_sge sge = local.sge(0, 64);
    Request second(2, IBV_WR_SEND, &sge, 1, 0);
    Request first(1, IBV_WR_RDMA_WRITE, &sge, 1, 0);
    first.wr.rdma.rkey = kNoKey;
    first.next = &second;
    ASSERT_EQ(first.post(pair.a.qp), 0);
    ibv_wc wc = completion(pair.a.send_cq);
    EXPECT_EQ(wc.wr_id, 1u);
    EXPECT_EQ(wc.status, IBV_WC_REM_ACCESS_ERR);
    wc = completion(pair.a.send_cq);
    EXPECT_EQ(wc.wr_id, 2u);
    EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
}

// The bytes are the request's from the post on: the memory need not be registered, and may change at once.
// The receiver has no receive yet, so the message surely leaves again later.
TEST(Inline, UnregisteredMemoryOverwrittenAfterThePost) {
    Pair pair;
    Memory remote(pair.b.pd, 512);
    std::uint8_t first[100], second[156];
    for (int round = 0; round < 20; round++) {
        std::memset(first, 0x11 + round, sizeof first);
        std::memset(second, 0x22 + round, sizeof second);
        ibv_sge sges[2] = {{reinterpret_cast<std::uintptr_t>(first), sizeof first, 0xdeadbeef},
                           {reinterpret_cast<std::uintptr_t>(second), sizeof second, 0}};
        Request request(1, IBV_WR_SEND, sges, 2, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
        ASSERT_EQ(request.post(pair.a.qp), 0);
        std::memset(first, 0xff, sizeof first);
        std::memset(second, 0xff, sizeof second);
        std::memset(sges, 0xff, sizeof sges);
        usleep(500);
        ASSERT_EQ(pair.b.post_receive(1, remote.sge(0, 512)), 0);
        EXPECT_EQ(success(pair.b.receive_cq).byte_len, 256u);
        success(pair.a.send_cq);
        EXPECT_EQ(remote.data()[0], 0x11 + round);
        EXPECT_EQ(remote.data()[99], 0x11 + round);
        EXPECT_EQ(remote.data()[100], 0x22 + round);
        EXPECT_EQ(remote.data()[255], 0x22 + round);
    }
}

TEST(Inline, Write) {
    Pair pair;
    Memory remote(pair.b.pd, 64);
    std::uint64_t value = 0x0123456789abcdef;
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(&value), 8, 0};
    Request request(1, IBV_WR_RDMA_WRITE, &sge, 1, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
    ASSERT_EQ(request.to(remote, 8).post(pair.a.qp), 0);
    value = 0;
    success(pair.a.send_cq);
    std::memcpy(&value, remote.data() + 8, 8);
    EXPECT_EQ(value, 0x0123456789abcdefu);
}

// A fenced request starts when the READs before it are done (IBA 10.8.3.3): so it sends what they brought.
TEST(Fence, SendsWhatTheReadBrought) {
    constexpr std::size_t kBytes = 256 << 10;
    Pair pair;
    Memory local(pair.a.pd, kBytes), remote(pair.b.pd, kBytes), inbox(pair.b.pd, kBytes);
    for (int round = 1; round <= 20; round++) {
        remote.set_all(static_cast<std::uint8_t>(round));
        ASSERT_EQ(pair.b.post_receive(1, inbox.sge(0, kBytes)), 0);
        ibv_sge sge = local.sge(0, kBytes);
        Request send(2, IBV_WR_SEND, &sge, 1, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
        Request read(1, IBV_WR_RDMA_READ, &sge, 1);
        read.to(remote).next = &send;
        ASSERT_EQ(read.post(pair.a.qp), 0);
        EXPECT_EQ(success(pair.a.send_cq).wr_id, 1u);
        EXPECT_EQ(success(pair.a.send_cq).wr_id, 2u);
        success(pair.b.receive_cq);
        ASSERT_EQ(inbox.data()[0], round);
        ASSERT_EQ(inbox.data()[kBytes - 1], round);
    }
}

struct Notified : testing::Test {
    Notified() : pair(options()), local(pair.a.pd, 64), remote(pair.b.pd, 64), sge(local.sge(0, 64)) {
        EXPECT_EQ(receive_many(pair.b, remote, 20), 0);
    }
    static Options options() {
        Options wanted;
        wanted.with_channel = true;
        return wanted;
    }
    // A message that has arrived.
    void message(unsigned flags) {
        ASSERT_EQ(Request(1, IBV_WR_SEND, &sge, 1, flags | IBV_SEND_SIGNALED).post(pair.a.qp), 0);
        success(pair.a.send_cq);
    }
    bool woken(int milliseconds) { return readable(pair.b.channel->fd, milliseconds); }
    void take_event() {
        ibv_cq* cq = nullptr;
        void* context = nullptr;
        ASSERT_EQ(ibv_get_cq_event(pair.b.channel, &cq, &context), 0);
        EXPECT_EQ(cq, pair.b.receive_cq);
        EXPECT_EQ(context, &pair.b);
        ibv_ack_cq_events(cq, 1);
    }

    Pair pair;
    Memory local, remote;
    ibv_sge sge;
};

TEST_F(Notified, AnyCompletionOnceForEachArming) {
    message(0);
    EXPECT_FALSE(woken(0)) << "not armed";
    success(pair.b.receive_cq);
    ASSERT_EQ(ibv_req_notify_cq(pair.b.receive_cq, 0), 0);
    message(0);
    ASSERT_TRUE(woken(kPatienceMs));
    take_event();
    message(0);
    EXPECT_FALSE(woken(0)) << "not armed again";
}

TEST_F(Notified, SolicitedOnly) {
    ASSERT_EQ(ibv_req_notify_cq(pair.b.receive_cq, 1), 0);
    message(0);
    message(0);
    EXPECT_FALSE(woken(0));
    message(IBV_SEND_SOLICITED);
    ASSERT_TRUE(woken(kPatienceMs));
    take_event();
    EXPECT_FALSE(woken(0));
}

TEST_F(Notified, SolicitedOnlyAlsoByAFailure) {
    ASSERT_EQ(ibv_req_notify_cq(pair.b.receive_cq, 1), 0);
    message(0);
    EXPECT_FALSE(woken(0));
    ASSERT_EQ(pair.b.to_state(IBV_QPS_ERR), 0);
    ASSERT_TRUE(woken(kPatienceMs));
    take_event();
}

// IBA 11.4.2.2: a request for any completion is not narrowed by a later one for solicited ones.
TEST_F(Notified, AnyThenSolicitedStaysAny) {
    ASSERT_EQ(ibv_req_notify_cq(pair.b.receive_cq, 0), 0);
    ASSERT_EQ(ibv_req_notify_cq(pair.b.receive_cq, 1), 0);
    message(0);
    ASSERT_TRUE(woken(kPatienceMs));
    take_event();
}

}  // namespace
}  // namespace verbena::verbs_test
