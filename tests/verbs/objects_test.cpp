// Creating and destroying: limits, values that do not exist, what is still in use, keys, and a completion
// queue that overruns.
#include <sys/mman.h>

#include <algorithm>
#include <set>

#include "harness.h"

namespace verbena::verbs_test {
namespace {

struct Objects : testing::Test {
    Side side{Options{.connect = false}};
};

TEST_F(Objects, InUseAreNotDestroyed) {
    EXPECT_TRUE(refused(EBUSY, [&] { return ibv_dealloc_pd(side.pd); }));
    EXPECT_TRUE(refused(EBUSY, [&] { return ibv_destroy_cq(side.send_cq); }));
    EXPECT_TRUE(refused(EBUSY, [&] { return ibv_destroy_cq(side.receive_cq); }));
    ibv_pd* pd = ibv_alloc_pd(side.context);
    {
        Memory memory(pd, 64);
        EXPECT_TRUE(refused(EBUSY, [&] { return ibv_dealloc_pd(pd); }));
    }
    ibv_ah_attr address{};
    address.is_global = 1;
    address.port_num = 1;
    address.grh.dgid = side.gid();
    ibv_ah* ah = ibv_create_ah(pd, &address);
    ASSERT_TRUE(ah);
    EXPECT_TRUE(refused(EBUSY, [&] { return ibv_dealloc_pd(pd); }));
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);

    ibv_comp_channel* channel = ibv_create_comp_channel(side.context);
    ibv_cq* cq = ibv_create_cq(side.context, 1, nullptr, channel, 0);
    EXPECT_TRUE(refused(EBUSY, [&] { return ibv_destroy_comp_channel(channel); }));
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

TEST_F(Objects, CompletionQueuesOfWrongSizes) {
    ibv_device_attr device;
    ASSERT_EQ(ibv_query_device(side.context, &device), 0);
    for (int cqe : {0, -1, device.max_cqe + 1})
        EXPECT_TRUE(
            refused_null(EINVAL, [&] { return ibv_create_cq(side.context, cqe, nullptr, nullptr, 0); }));
    for (int vector : {-1, side.context->num_comp_vectors})
        EXPECT_TRUE(
            refused_null(EINVAL, [&] { return ibv_create_cq(side.context, 1, nullptr, nullptr, vector); }));
}

TEST_F(Objects, QueuePairsBeyondTheLimits) {
    ibv_device_attr device;
    ASSERT_EQ(ibv_query_device(side.context, &device), 0);
    struct Wrong {
        const char* name;
        std::function<void(ibv_qp_init_attr&)> spoil;
    };
    const auto beyond = [](int limit) { return static_cast<std::uint32_t>(limit) + 1; };
    const Wrong kWrongs[] = {
        {"max_send_wr", [&](ibv_qp_init_attr& a) { a.cap.max_send_wr = beyond(device.max_qp_wr); }},
        {"max_recv_wr", [&](ibv_qp_init_attr& a) { a.cap.max_recv_wr = beyond(device.max_qp_wr); }},
        {"max_send_sge", [&](ibv_qp_init_attr& a) { a.cap.max_send_sge = beyond(device.max_sge); }},
        {"max_recv_sge", [&](ibv_qp_init_attr& a) { a.cap.max_recv_sge = beyond(device.max_sge); }},
        {"max_inline_data", [](ibv_qp_init_attr& a) { a.cap.max_inline_data = 1 << 20; }},
        {"no send_cq", [](ibv_qp_init_attr& a) { a.send_cq = nullptr; }},
        {"no recv_cq", [](ibv_qp_init_attr& a) { a.recv_cq = nullptr; }},
        {"type 0", [](ibv_qp_init_attr& a) { a.qp_type = static_cast<ibv_qp_type>(0); }},
        {"type 77", [](ibv_qp_init_attr& a) { a.qp_type = static_cast<ibv_qp_type>(77); }},
        {"type 258", [](ibv_qp_init_attr& a) { a.qp_type = static_cast<ibv_qp_type>(258); }},
    };
    for (const Wrong& wrong : kWrongs) {
        SCOPED_TRACE(wrong.name);
        ibv_qp_init_attr attributes = side.setup();
        wrong.spoil(attributes);
        EXPECT_TRUE(refused_null(EINVAL, [&] { return ibv_create_qp(side.pd, &attributes); }));
    }
}

TEST_F(Objects, OfAnotherContext) {
    Side other({.connect = false});
    ibv_qp_init_attr attributes = side.setup();
    EXPECT_TRUE(refused_null(EINVAL, [&] { return ibv_create_qp(other.pd, &attributes); }));
    attributes.recv_cq = other.receive_cq;
    EXPECT_TRUE(refused_null(EINVAL, [&] { return ibv_create_qp(side.pd, &attributes); }));
    ibv_comp_channel* channel = ibv_create_comp_channel(other.context);
    EXPECT_TRUE(refused_null(EINVAL, [&] { return ibv_create_cq(side.context, 1, nullptr, channel, 0); }));
    EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

TEST_F(Objects, RegionsWithWrongArguments) {
    alignas(4096) std::uint64_t word = 0;
    for (unsigned access : {1u << 10, 1u << 19, 1u << 31, unsigned{IBV_ACCESS_REMOTE_WRITE},
                            unsigned{IBV_ACCESS_REMOTE_ATOMIC}})
        EXPECT_TRUE(refused_null(EINVAL, [&] { return ibv_reg_mr_iova2(side.pd, &word, 8, 0, access); }))
            << access;
    void* hole = mmap(nullptr, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(hole, MAP_FAILED);
    ASSERT_EQ(munmap(static_cast<char*>(hole) + 4096, 4096), 0);
    EXPECT_TRUE(refused_null(EFAULT, [&] {
        return ibv_reg_mr(side.pd, hole, std::size_t{3 * 4096}, int{IBV_ACCESS_LOCAL_WRITE});
    }));
    munmap(hole, 4096);
    munmap(static_cast<char*>(hole) + 2 * 4096, 4096);
    // Hints may be ignored.
    ibv_mr* mr = ibv_reg_mr_iova2(side.pd, &word, 8, 0, IBV_ACCESS_RELAXED_ORDERING);
    ASSERT_TRUE(mr);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Objects, KeysAllDiffer) {
    std::vector<std::uint64_t> words(1000);
    std::vector<ibv_mr*> regions;
    std::set<std::uint32_t> keys;
    for (std::uint64_t& word : words) {
        ibv_mr* mr = ibv_reg_mr(side.pd, &word, 8, kAllAccess);
        ASSERT_TRUE(mr);
        EXPECT_TRUE(keys.insert(mr->lkey).second);
        EXPECT_TRUE(keys.insert(mr->rkey).second) << "an rkey that is somebody's lkey";
        regions.push_back(mr);
    }
    const std::uint32_t old_lkey = regions.back()->lkey, old_rkey = regions.back()->rkey;
    for (ibv_mr* mr : regions) EXPECT_EQ(ibv_dereg_mr(mr), 0);
    Memory next(side.pd, 8);
    EXPECT_NE(next.mr->lkey, old_lkey) << "a key comes back at once";
    EXPECT_NE(next.mr->rkey, old_rkey);
}

TEST_F(Objects, CapabilitiesAreGivenAsAskedOrMore) {
    ibv_qp_init_attr attributes = side.setup();
    attributes.cap = {1, 1, 1, 1, 0};
    ibv_qp* qp = ibv_create_qp(side.pd, &attributes);
    ASSERT_TRUE(qp);
    EXPECT_GE(attributes.cap.max_send_wr, 1u);
    EXPECT_GE(attributes.cap.max_recv_wr, 1u);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

// What was flushed and not polled is gone with its queue pair, as with adapters: so may be what wr_id names.
TEST(Destroyed, AQueuePairHasNoCompletions) {
    Pair pair;
    ASSERT_EQ(pair.b.post_receive(7, nullptr, 0), 0);
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    ASSERT_EQ(ibv_modify_qp(pair.b.qp, &attributes, IBV_QP_STATE), 0);
    ASSERT_EQ(ibv_destroy_qp(std::exchange(pair.b.qp, nullptr)), 0);
    ibv_wc wc;
    EXPECT_EQ(ibv_poll_cq(pair.b.receive_cq, 1, &wc), 0);
}

// IBA 11.2.8.1: a completion without a place is lost, so the queue is in error and says so.
TEST(Overrun, RaisesAnEventAndEndsTheQueue) {
    Options options;
    options.cqe = 4;
    Pair pair(options);
    for (std::uint64_t id = 0; id < 5; id++) ASSERT_EQ(pair.a.post_receive(id, nullptr, 0), 0);
    ASSERT_EQ(pair.a.to_state(IBV_QPS_ERR), 0);
    ibv_async_event event;
    ASSERT_TRUE(next_event(pair.a.context, event));
    EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
    EXPECT_EQ(event.element.cq, pair.a.receive_cq);
    ibv_wc wc;
    EXPECT_TRUE(refused(EIO, [&] { return -ibv_poll_cq(pair.a.receive_cq, 1, &wc); }));
}

// As adapters round: a power of two, four at least. Programs count on more than they asked for.
TEST_F(Objects, CompletionQueuesAreRoundedUp) {
    ibv_device_attr device;
    ASSERT_EQ(ibv_query_device(side.context, &device), 0);
    const std::pair<int, int> kSizes[] = {{1, 4}, {2, 4}, {3, 4}, {4, 4}, {5, 8}, {100, 128}, {1024, 1024}};
    ibv_cq* resized = ibv_create_cq(side.context, 64, nullptr, nullptr, 0);
    for (const auto& [asked, got] : kSizes) {
        ibv_cq* cq = ibv_create_cq(side.context, asked, nullptr, nullptr, 0);
        ASSERT_TRUE(cq);
        EXPECT_EQ(cq->cqe, got) << asked;
        EXPECT_EQ(ibv_destroy_cq(cq), 0);
        ASSERT_EQ(ibv_resize_cq(resized, asked), 0);
        EXPECT_EQ(resized->cqe, got) << asked;
    }
    EXPECT_TRUE(refused(EINVAL, [&] { return ibv_resize_cq(resized, device.max_cqe + 1); }));
    EXPECT_EQ(resized->cqe, 1024);
    EXPECT_EQ(ibv_destroy_cq(resized), 0);
}

TEST(Resize, KeepsWhatWaits) {
    Pair pair;
    for (std::uint64_t id = 0; id < 10; id++) ASSERT_EQ(pair.a.post_receive(id, nullptr, 0), 0);
    ASSERT_EQ(pair.a.to_state(IBV_QPS_ERR), 0);
    EXPECT_TRUE(refused(EINVAL, [&] { return ibv_resize_cq(pair.a.receive_cq, 8); }));
    EXPECT_TRUE(refused(EINVAL, [&] { return ibv_resize_cq(pair.a.receive_cq, 0); }));
    EXPECT_EQ(ibv_resize_cq(pair.a.receive_cq, 10), 0);
    EXPECT_EQ(pair.a.receive_cq->cqe, 16);
    for (std::uint64_t id = 0; id < 10; id++) EXPECT_EQ(completion(pair.a.receive_cq).wr_id, id);
}

}  // namespace
}  // namespace verbena::verbs_test
