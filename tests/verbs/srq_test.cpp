// Shared receive queues (IBA 10.2.9): what creation, change and destruction refuse; who gets a request; the
// limit and the end of a queue pair.
#include <fcntl.h>

#include "harness.h"
#include "leaves_behind.h"

namespace verbena::verbs_test {
namespace {

Options shared(std::uint32_t places = 16) {
    Options options;
    options.shared_receives = places;
    return options;
}

int modify(ibv_srq* srq, std::uint32_t max_wr, std::uint32_t limit, int mask) {
    ibv_srq_attr attr{};
    attr.max_wr = max_wr;
    attr.srq_limit = limit;
    return ibv_modify_srq(srq, &attr, mask);
}

ibv_srq_attr query(ibv_srq* srq) {
    ibv_srq_attr attr{};
    EXPECT_EQ(ibv_query_srq(srq, &attr), 0);
    return attr;
}

int set_error(ibv_qp* qp) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    return ibv_modify_qp(qp, &attributes, IBV_QP_STATE);
}

// The asynchronous event that is there, acknowledged; -1: none.
int event_by_now(ibv_context* context, const void* element) {
    const int flags = fcntl(context->async_fd, F_GETFL);
    fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK);
    ibv_async_event event;
    if (ibv_get_async_event(context, &event)) return -1;
    EXPECT_EQ(event.element.srq, element);
    ibv_ack_async_event(&event);
    return event.event_type;
}

TEST(Srq, CreationRefuses) {
    Side side{Options{.connect = false}};
    ibv_device_attr device;
    ASSERT_EQ(ibv_query_device(side.context, &device), 0);
    ASSERT_GT(device.max_srq, 0);
    EXPECT_TRUE(device.device_cap_flags & IBV_DEVICE_SRQ_RESIZE);
    const auto create = [&](std::uint32_t max_wr, std::uint32_t max_sge) {
        ibv_srq_init_attr attr{};
        attr.attr.max_wr = max_wr;
        attr.attr.max_sge = max_sge;
        return ibv_create_srq(side.pd, &attr);
    };
    const auto max_wr = static_cast<std::uint32_t>(device.max_srq_wr);
    const auto max_sge = static_cast<std::uint32_t>(device.max_srq_sge);
    EXPECT_TRUE(refused_null(EINVAL, [&] { return create(0, 1); }));
    EXPECT_TRUE(refused_null(EINVAL, [&] { return create(max_wr + 1, 1); }));
    EXPECT_TRUE(refused_null(EINVAL, [&] { return create(1, max_sge + 1); }));
    ibv_srq* srq = create(max_wr, max_sge);
    ASSERT_NE(srq, nullptr);
    EXPECT_EQ(query(srq).max_wr, max_wr);
    EXPECT_EQ(query(srq).max_sge, max_sge);
    EXPECT_TRUE(refused(EBUSY, [&] { return ibv_dealloc_pd(side.pd); }));
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST(Srq, ExtendedCreationRefuses) {
    Side side{Options{.connect = false}};
    Side other{Options{.connect = false}};
    const auto create = [&](std::uint32_t mask, int type, ibv_pd* pd) {
        ibv_srq_init_attr_ex attr{};
        attr.attr.max_wr = attr.attr.max_sge = 1;
        attr.comp_mask = mask;
        attr.srq_type = static_cast<ibv_srq_type>(type);
        attr.pd = pd;
        attr.cq = side.receive_cq;
        return ibv_create_srq_ex(side.context, &attr);
    };
    constexpr std::uint32_t kBoth = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
    EXPECT_TRUE(
        refused_null(EINVAL, [&] { return create(IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQT_BASIC, side.pd); }));
    EXPECT_TRUE(refused_null(EINVAL, [&] { return create(kBoth, 77, side.pd); }));
    EXPECT_TRUE(refused_null(EOPNOTSUPP, [&] { return create(kBoth, IBV_SRQT_TM, side.pd); }));
    EXPECT_TRUE(refused_null(EOPNOTSUPP, [&] { return create(kBoth | 1u << 9, IBV_SRQT_BASIC, side.pd); }));
    EXPECT_TRUE(refused_null(EINVAL, [&] { return create(kBoth, IBV_SRQT_XRC, side.pd); }));
    EXPECT_TRUE(
        refused_null(EINVAL, [&] { return create(kBoth | IBV_SRQ_INIT_ATTR_CQ, IBV_SRQT_BASIC, other.pd); }));
    ibv_srq* srq = create(kBoth | IBV_SRQ_INIT_ATTR_CQ, IBV_SRQT_BASIC, side.pd);
    ASSERT_NE(srq, nullptr);
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST(Srq, IsBusyWhileAQueuePairUsesIt) {
    Side side(shared());
    EXPECT_TRUE(refused(EBUSY, [&] { return ibv_destroy_srq(side.srq); }));
    EXPECT_EQ(ibv_destroy_qp(side.qp), 0);
    side.qp = nullptr;
}

TEST(Srq, TheQueuePairHasNoReceiveQueueOfItsOwn) {
    Pair pair(shared());
    ibv_recv_wr request{}, *bad = nullptr;
    EXPECT_TRUE(refused(EINVAL, [&] { return ibv_post_recv(pair.a.qp, &request, &bad); }));
    EXPECT_EQ(bad, &request);
    ibv_qp_attr attributes;
    ibv_qp_init_attr setup;
    ASSERT_EQ(ibv_query_qp(pair.a.qp, &attributes, IBV_QP_CAP, &setup), 0);
    EXPECT_EQ(setup.srq, pair.a.srq);
    EXPECT_EQ(setup.cap.max_recv_wr, 0u);
}

TEST(Srq, PostRefusesAndSaysWhich) {
    Side side(shared(2));
    Memory memory(side.pd, 64);
    ibv_sge sges[40];
    for (ibv_sge& sge : sges) sge = memory.sge(0, 1);
    ibv_recv_wr requests[4]{}, *bad = nullptr;
    for (int i = 0; i < 3; i++) requests[i].next = &requests[i + 1];
    EXPECT_TRUE(refused(ENOMEM, [&] { return ibv_post_srq_recv(side.srq, requests, &bad); }));
    EXPECT_EQ(bad, &requests[2]);
    requests[0] = {0, nullptr, sges, 5};
    EXPECT_TRUE(refused(EINVAL, [&] { return ibv_post_srq_recv(side.srq, requests, &bad); }));
    EXPECT_EQ(bad, &requests[0]);
    requests[0].num_sge = -1;
    EXPECT_TRUE(refused(EINVAL, [&] { return ibv_post_srq_recv(side.srq, requests, &bad); }));
}

TEST(Srq, ResizesAndRefusesToLoseWhatWaits) {
    Pair pair(shared(4));
    Side& b = pair.b;
    for (std::uint64_t id = 0; id < 4; id++) ASSERT_EQ(b.post_receive(id, nullptr, 0), 0);
    EXPECT_TRUE(refused(ENOMEM, [&] { return b.post_receive(4, nullptr, 0); }));
    EXPECT_TRUE(refused(EINVAL, [&] { return modify(b.srq, 3, 0, IBV_SRQ_MAX_WR); }));
    EXPECT_TRUE(refused(EINVAL, [&] { return modify(b.srq, 0, 0, IBV_SRQ_MAX_WR); }));
    EXPECT_TRUE(refused(EINVAL, [&] { return modify(b.srq, 1u << 30, 0, IBV_SRQ_MAX_WR); }));
    EXPECT_TRUE(refused(EINVAL, [&] { return modify(b.srq, 8, 0, 1 << 5); }));
    EXPECT_EQ(query(b.srq).max_wr, 4u);
    ASSERT_EQ(modify(b.srq, 6, 0, IBV_SRQ_MAX_WR), 0);
    EXPECT_EQ(query(b.srq).max_wr, 6u);
    for (std::uint64_t id = 4; id < 6; id++) ASSERT_EQ(b.post_receive(id, nullptr, 0), 0);
    for (int i = 0; i < 6; i++) ASSERT_EQ(Request(9, IBV_WR_SEND, nullptr, 0).post(pair.a.qp), 0);
    for (std::uint64_t id = 0; id < 6; id++) EXPECT_EQ(success(b.receive_cq).wr_id, id);
    for (int i = 0; i < 6; i++) success(pair.a.send_cq);
}

TEST(Srq, TheLimitIsReportedOnce) {
    Pair pair(shared(8));
    Side& b = pair.b;
    for (std::uint64_t id = 0; id < 8; id++) ASSERT_EQ(b.post_receive(id, nullptr, 0), 0);
    EXPECT_TRUE(refused(EINVAL, [&] { return modify(b.srq, 0, 9, IBV_SRQ_LIMIT); }));
    ASSERT_EQ(modify(b.srq, 0, 7, IBV_SRQ_LIMIT), 0);
    EXPECT_EQ(query(b.srq).srq_limit, 7u);
    EXPECT_TRUE(refused(EINVAL, [&] { return modify(b.srq, 0, 9, IBV_SRQ_LIMIT | IBV_SRQ_MAX_WR); }));
    const auto send = [&] {
        ASSERT_EQ(Request(9, IBV_WR_SEND, nullptr, 0).post(pair.a.qp), 0);
        success(b.receive_cq);
        success(pair.a.send_cq);
    };
    send();
    EXPECT_EQ(event_by_now(b.context, b.srq), -1);
    send();
    EXPECT_EQ(event_by_now(b.context, b.srq), IBV_EVENT_SRQ_LIMIT_REACHED);
    EXPECT_EQ(query(b.srq).srq_limit, 0u);
    send();
    EXPECT_EQ(event_by_now(b.context, b.srq), -1);
    // Too late to wait for a request to be taken.
    ASSERT_EQ(modify(b.srq, 0, 8, IBV_SRQ_LIMIT), 0);
    EXPECT_EQ(event_by_now(b.context, b.srq), IBV_EVENT_SRQ_LIMIT_REACHED);
}

TEST(Srq, AnErrorTakesNothingFromTheQueue) {
    Pair pair(shared(4));
    Side& b = pair.b;
    for (std::uint64_t id = 0; id < 4; id++) ASSERT_EQ(b.post_receive(id, nullptr, 0), 0);
    ASSERT_EQ(set_error(b.qp), 0);
    EXPECT_TRUE(empty(b.receive_cq));
    EXPECT_EQ(event_by_now(b.context, b.qp), IBV_EVENT_QP_LAST_WQE_REACHED);
    EXPECT_TRUE(refused(ENOMEM, [&] { return b.post_receive(4, nullptr, 0); }));
}

// Two queue pairs take from one queue, each completing to its own completion queue.
TEST(Srq, ServesSeveralQueuePairs) {
    Pair pair(shared(32));
    Side& b = pair.b;
    Side c{Options{}};
    ibv_qp_init_attr setup = b.setup();
    setup.recv_cq = b.send_cq;
    ibv_qp* second = ibv_create_qp(b.pd, &setup);
    ASSERT_NE(second, nullptr);
    std::swap(b.qp, second);
    ASSERT_EQ(b.to_init(), 0);
    ASSERT_EQ(b.to_rtr(c.gid(), c.qp->qp_num), 0);
    ASSERT_EQ(c.to_init(), 0);
    ASSERT_EQ(c.to_rtr(b.gid(), b.qp->qp_num), 0);
    ASSERT_EQ(c.to_rts(), 0);
    std::swap(b.qp, second);
    for (std::uint64_t id = 0; id < 20; id++) ASSERT_EQ(b.post_receive(id, nullptr, 0), 0);
    for (int i = 0; i < 10; i++) {
        ASSERT_EQ(Request(1, IBV_WR_SEND, nullptr, 0).post(pair.a.qp), 0);
        ASSERT_EQ(Request(2, IBV_WR_SEND, nullptr, 0).post(c.qp), 0);
    }
    std::uint64_t sum = 0;
    for (int i = 0; i < 10; i++) {
        const ibv_wc first = success(b.receive_cq), other = success(b.send_cq);
        EXPECT_EQ(first.qp_num, b.qp->qp_num);
        EXPECT_EQ(other.qp_num, second->qp_num);
        sum += first.wr_id + other.wr_id;
        success(pair.a.send_cq);
        success(c.send_cq);
    }
    EXPECT_EQ(sum, 190u);
    EXPECT_EQ(ibv_destroy_qp(second), 0);
}

// The sender waits for a receive; a post to the shared queue lets it go on.
TEST(Srq, APostWakesWhoWaits) {
    Pair pair(shared(4));
    ASSERT_EQ(Request(1, IBV_WR_SEND, nullptr, 0).post(pair.a.qp), 0);
    for (int i = 0; i < 1000; i++) ASSERT_TRUE(empty(pair.b.receive_cq));
    ASSERT_EQ(pair.b.post_receive(5, nullptr, 0), 0);
    EXPECT_EQ(success(pair.b.receive_cq).wr_id, 5u);
    success(pair.a.send_cq);
}

// IBA 10.2.9.1: the queue's domain, not the queue pair's, is that of the receive's memory.
TEST(Srq, ReceivesAreOfTheQueuesDomain) {
    Pair pair;
    Side& b = pair.b;
    Memory source(pair.a.pd, 64);
    ibv_pd* domain = ibv_alloc_pd(b.context);
    {
        Memory target(domain, 64);
        ibv_srq_init_attr attr{};
        attr.attr.max_wr = attr.attr.max_sge = 1;
        ibv_srq* srq = ibv_create_srq(domain, &attr);
        ASSERT_NE(srq, nullptr);
        ibv_qp* without = b.qp;
        b.srq = srq;
        ibv_qp_init_attr setup = b.setup();
        b.qp = ibv_create_qp(b.pd, &setup);
        ASSERT_NE(b.qp, nullptr);
        Side a{Options{}};
        ASSERT_EQ(b.to_init(), 0);
        ASSERT_EQ(b.to_rtr(a.gid(), a.qp->qp_num), 0);
        ASSERT_EQ(a.to_init(), 0);
        ASSERT_EQ(a.to_rtr(b.gid(), b.qp->qp_num), 0);
        ASSERT_EQ(a.to_rts(), 0);
        Memory other(a.pd, 64);
        other.fill(3);
        ASSERT_EQ(b.post_receive(1, target.sge(0, 64)), 0);
        ibv_sge sge = other.sge(0, 64);
        ASSERT_EQ(Request(1, IBV_WR_SEND, &sge, 1).post(a.qp), 0);
        success(b.receive_cq);
        success(a.send_cq);
        EXPECT_TRUE(target.holds(3, 64));
        EXPECT_EQ(ibv_destroy_qp(b.qp), 0);
        b.qp = without;
        EXPECT_EQ(ibv_destroy_srq(srq), 0);
        b.srq = nullptr;
    }
    EXPECT_EQ(ibv_dealloc_pd(domain), 0);
}

// Closing the device takes a queue with it that the program forgot.
TEST(Srq, IsForgottenWithItsDevice) {
    LeavesBehind on_purpose;
    ibv_context* context = open_loopback();
    ibv_pd* pd = ibv_alloc_pd(context);
    ibv_srq_init_attr attr{};
    attr.attr.max_wr = attr.attr.max_sge = 1;
    ASSERT_NE(ibv_create_srq(pd, &attr), nullptr);
    EXPECT_EQ(ibv_close_device(context), 0);
}

}  // namespace
}  // namespace verbena::verbs_test
