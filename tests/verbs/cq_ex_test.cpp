// Extended completion queues, thread domains and parent domains.
#include <thread>

#include "harness.h"

namespace verbena::verbs_test {
namespace {

constexpr std::uint64_t kAllFields = IBV_CREATE_CQ_SUP_WC_FLAGS;

ibv_cq_init_attr_ex plain(std::uint32_t cqe = 64) {
    ibv_cq_init_attr_ex attributes{};
    attributes.cqe = cqe;
    attributes.wc_flags = kAllFields;
    return attributes;
}

// A pair whose receiver has an extended receive queue.
struct ExtendedQueue : testing::Test {
    void make(
        const std::function<void(ibv_cq_init_attr_ex&)>& change = [](auto&) {}, std::uint32_t cqe = 64) {
        Options options;
        options.connect = false;
        pair = std::make_unique<Pair>(options);
        EXPECT_EQ(ibv_destroy_qp(pair->b.qp), 0);
        EXPECT_EQ(ibv_destroy_cq(pair->b.receive_cq), 0);
        ibv_cq_init_attr_ex attributes = plain(cqe);
        change(attributes);
        cq = ibv_create_cq_ex(pair->b.context, &attributes);
        ASSERT_NE(cq, nullptr) << std::strerror(errno);
        pair->b.receive_cq = ibv_cq_ex_to_cq(cq);
        ibv_qp_init_attr setup = pair->b.setup();
        pair->b.qp = ibv_create_qp(pair->b.pd, &setup);
        ASSERT_NE(pair->b.qp, nullptr);
        Side* sides[2] = {&pair->a, &pair->b};
        for (int i = 0; i < 2; i++) {
            EXPECT_EQ(sides[i]->to_init(), 0);
            EXPECT_EQ(sides[i]->to_rtr(sides[1 - i]->gid(), sides[1 - i]->qp->qp_num), 0);
            EXPECT_EQ(sides[i]->to_rts(), 0);
        }
        local = std::make_unique<Memory>(pair->a.pd, 4096);
        remote = std::make_unique<Memory>(pair->b.pd, 4096);
    }
    // `count` messages have arrived.
    void messages(std::uint32_t count) {
        for (std::uint32_t i = 0; i < count; i++) {
            ASSERT_EQ(pair->b.post_receive(100 + i, remote->sge(0, 64)), 0);
            ibv_sge sge = local->sge(0, i + 1);
            Request request(i, IBV_WR_SEND_WITH_IMM, &sge, 1);
            request.imm_data = htobe32(i);
            ASSERT_EQ(request.post(pair->a.qp), 0);
            success(pair->a.send_cq);
        }
    }
    int start() {
        ibv_poll_cq_attr attributes{};
        return ibv_start_poll(cq, &attributes);
    }

    std::unique_ptr<Pair> pair;
    std::unique_ptr<Memory> local, remote;
    ibv_cq_ex* cq = nullptr;
};

TEST_F(ExtendedQueue, FieldsOfEachCompletion) {
    make();
    EXPECT_EQ(start(), ENOENT) << "nothing there, and no end_poll after that";
    ibv_values_ex before{IBV_VALUES_MASK_RAW_CLOCK, {}}, after = before;
    ASSERT_EQ(ibv_query_rt_values_ex(pair->b.context, &before), 0);
    messages(3);
    ASSERT_EQ(ibv_query_rt_values_ex(pair->b.context, &after), 0);
    const auto wall = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                                     std::chrono::system_clock::now().time_since_epoch())
                                                     .count());
    std::uint64_t last = static_cast<std::uint64_t>(before.raw_clock.tv_nsec), last_wall = 0;
    ASSERT_TRUE(wait_until([&] { return start() == 0; }));
    for (std::uint32_t i = 0; i < 3; i++) {
        if (i > 0) {
            ASSERT_EQ(ibv_next_poll(cq), 0);
        }
        EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
        EXPECT_EQ(cq->wr_id, 100 + i);
        EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RECV);
        EXPECT_EQ(ibv_wc_read_byte_len(cq), i + 1);
        EXPECT_EQ(ibv_wc_read_wc_flags(cq), unsigned{IBV_WC_WITH_IMM});
        EXPECT_EQ(ibv_wc_read_imm_data(cq), htobe32(i));
        EXPECT_EQ(ibv_wc_read_qp_num(cq), pair->b.qp->qp_num);
        EXPECT_EQ(ibv_wc_read_vendor_err(cq), 0u);
        EXPECT_EQ(ibv_wc_read_slid(cq), 0u);
        EXPECT_EQ(ibv_wc_read_sl(cq), 0u);
        EXPECT_EQ(ibv_wc_read_dlid_path_bits(cq), 0u);
        EXPECT_EQ(ibv_wc_read_cvlan(cq), 0u);
        const std::uint64_t stamp = ibv_wc_read_completion_ts(cq);
        EXPECT_GE(stamp, last);
        EXPECT_LE(stamp, static_cast<std::uint64_t>(after.raw_clock.tv_nsec));
        last = stamp;
        EXPECT_EQ(ibv_wc_read_flow_tag(cq), 0u);
        ibv_wc_tm_info matched{1, 1};
        ibv_wc_read_tm_info(cq, &matched);
        EXPECT_EQ(matched.tag | matched.priv, 0u);
        const std::uint64_t wall_stamp = ibv_wc_read_completion_wallclock_ns(cq);
        EXPECT_LT(wall_stamp, wall + 1'000'000'000u);
        EXPECT_GT(wall_stamp + 60'000'000'000u, wall);
        EXPECT_GE(wall_stamp, last_wall);
        EXPECT_EQ(ibv_wc_read_completion_wallclock_ns(cq), wall_stamp);
        last_wall = wall_stamp;
    }
    EXPECT_EQ(ibv_next_poll(cq), ENOENT);
    ibv_end_poll(cq);
    EXPECT_EQ(start(), ENOENT);
}

TEST_F(ExtendedQueue, WhatIsNotTakenStays) {
    make();
    messages(4);
    ASSERT_TRUE(wait_until([&] { return start() == 0; }));
    EXPECT_EQ(cq->wr_id, 100u);
    ibv_end_poll(cq);
    EXPECT_EQ(success(pair->b.receive_cq).wr_id, 101u) << "ibv_poll_cq on the same queue";
    ASSERT_EQ(start(), 0);
    EXPECT_EQ(cq->wr_id, 102u);
    ASSERT_EQ(ibv_next_poll(cq), 0);
    EXPECT_EQ(cq->wr_id, 103u);
    ibv_end_poll(cq);
    EXPECT_TRUE(empty(pair->b.receive_cq));
}

TEST_F(ExtendedQueue, AFailedCompletion) {
    make();
    ASSERT_EQ(pair->b.post_receive(7, remote->sge(0, 64)), 0);
    ASSERT_EQ(pair->b.to_state(IBV_QPS_ERR), 0);
    ASSERT_EQ(start(), 0);
    EXPECT_EQ(cq->status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(cq->wr_id, 7u);
    EXPECT_NE(ibv_wc_read_vendor_err(cq), 0u);
    ibv_end_poll(cq);
}

// The lock of one poller keeps the other out until the end.
TEST_F(ExtendedQueue, SeveralThreads) {
    make();
    constexpr std::uint32_t kMessages = 60;
    std::atomic<std::uint32_t> seen{0}, wrong{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++)
        threads.emplace_back([&] {
            while (seen < kMessages) {
                if (start() != 0) continue;
                do {
                    const std::uint64_t id = cq->wr_id;
                    std::this_thread::yield();
                    if (cq->wr_id != id || ibv_wc_read_byte_len(cq) != id - 100 + 1) wrong++;
                    seen++;
                } while (ibv_next_poll(cq) == 0);
                ibv_end_poll(cq);
            }
        });
    messages(kMessages);
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(seen, kMessages);
    EXPECT_EQ(wrong, 0u);
}

TEST_F(ExtendedQueue, OverrunIsAnErrorOfQueueAndQueuePair) {
    make([](auto&) {}, 4);
    messages(5);
    ibv_async_event event;
    bool queue_failed = false, fatal = false;
    while (!queue_failed || !fatal) {
        ASSERT_TRUE(next_event(pair->b.context, event));
        if (event.event_type == IBV_EVENT_CQ_ERR) {
            EXPECT_EQ(event.element.cq, pair->b.receive_cq);
            queue_failed = true;
        } else if (event.event_type == IBV_EVENT_QP_FATAL) {
            EXPECT_EQ(event.element.qp, pair->b.qp);
            fatal = true;
        }
    }
    EXPECT_EQ(pair->b.state(), IBV_QPS_ERR);
    EXPECT_TRUE(refused(EIO, [&] { return start(); }));
}

TEST_F(ExtendedQueue, OverrunIgnoredKeepsTheLatest) {
    make(
        [](auto& a) {
            a.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
            a.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN | IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
        },
        4);
    messages(7);
    ASSERT_TRUE(wait_until([&] { return start() == 0; }));
    for (std::uint64_t id = 103; id < 107; id++) {
        EXPECT_EQ(cq->wr_id, id);
        EXPECT_EQ(ibv_next_poll(cq), id == 106 ? ENOENT : 0);
    }
    ibv_end_poll(cq);
    EXPECT_FALSE(readable(pair->b.context->async_fd));
    EXPECT_EQ(pair->b.state(), IBV_QPS_RTS);
}

TEST(CreateCqEx, WhatCannotBeAskedFor) {
    Side side;
    auto refused_with = [&](int error, const std::function<void(ibv_cq_init_attr_ex&)>& spoil) {
        ibv_cq_init_attr_ex attributes = plain();
        spoil(attributes);
        return refused_null(error, [&] { return ibv_create_cq_ex(side.context, &attributes); });
    };
    EXPECT_TRUE(refused_with(EINVAL, [](auto& a) { a.cqe = 0; }));
    EXPECT_TRUE(refused_with(EINVAL, [](auto& a) { a.cqe = 0xffffffff; }));
    EXPECT_TRUE(refused_with(EINVAL, [&](auto& a) {
        a.comp_vector = static_cast<std::uint32_t>(side.context->num_comp_vectors);
    }));
    EXPECT_TRUE(refused_with(EOPNOTSUPP, [](auto& a) { a.wc_flags |= std::uint64_t{1} << 40; }));
    EXPECT_TRUE(refused_with(EOPNOTSUPP, [](auto& a) { a.comp_mask = 1u << 9; }));
    EXPECT_TRUE(refused_with(EOPNOTSUPP, [](auto& a) {
        a.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
        a.flags = 1u << 9;
    }));
    EXPECT_TRUE(refused_with(EINVAL, [&](auto& a) {
        a.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
        a.parent_domain = side.pd;
    })) << "a protection domain is no parent domain";
    ibv_modify_cq_attr nothing{};
    EXPECT_TRUE(refused(EINVAL, [&] { return ibv_modify_cq(side.send_cq, &nothing); }));
}

// ibv_modify_cq(3): one event for `cq_count` completions, or `cq_period` microseconds after the first.
TEST(Moderation, OneEventForSeveralCompletions) {
    Options options;
    options.with_channel = true;
    Pair pair(options);
    ibv_modify_cq_attr attributes{IBV_CQ_ATTR_MODERATE, {4, 0}};
    ASSERT_EQ(ibv_modify_cq(pair.b.receive_cq, &attributes), 0);
    ASSERT_EQ(ibv_req_notify_cq(pair.b.receive_cq, 0), 0);
    for (std::uint64_t id = 0; id < 8; id++) ASSERT_EQ(pair.b.post_receive(id, nullptr, 0), 0);
    const auto send = [&](int count) {
        for (int i = 0; i < count; i++) {
            ASSERT_EQ(Request(1, IBV_WR_SEND, nullptr, 0).post(pair.a.qp), 0);
            success(pair.a.send_cq);
        }
    };
    const auto take_event = [&] {
        ibv_cq* cq = nullptr;
        void* context;
        ASSERT_EQ(ibv_get_cq_event(pair.b.channel, &cq, &context), 0);
        EXPECT_EQ(cq, pair.b.receive_cq);
        ibv_ack_cq_events(cq, 1);
    };
    send(3);  // have arrived: they are acknowledged
    EXPECT_FALSE(readable(pair.b.channel->fd));
    send(1);
    ASSERT_TRUE(readable(pair.b.channel->fd, kPatienceMs));
    take_event();
    // And by time, which nobody polls for.
    attributes.moderate = {100, 1000};
    ASSERT_EQ(ibv_modify_cq(pair.b.receive_cq, &attributes), 0);
    ASSERT_EQ(ibv_req_notify_cq(pair.b.receive_cq, 0), 0);
    send(1);
    ASSERT_TRUE(readable(pair.b.channel->fd, kPatienceMs));
    take_event();
}

// Nobody polls, and the helper has fallen asleep without anything to wake up for.
TEST(Moderation, TheTimeOfAReceiveThatIsFlushedAtOnceIsKept) {
    Options options;
    options.with_channel = true;
    Pair pair(options);
    ibv_modify_cq_attr attributes{IBV_CQ_ATTR_MODERATE, {100, 1000}};
    ASSERT_EQ(ibv_modify_cq(pair.b.receive_cq, &attributes), 0);
    ASSERT_EQ(pair.b.to_state(IBV_QPS_ERR), 0);
    ASSERT_EQ(ibv_req_notify_cq(pair.b.receive_cq, 0), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ASSERT_EQ(pair.b.post_receive(1, nullptr, 0), 0);
    ASSERT_TRUE(readable(pair.b.channel->fd, kPatienceMs));
    ibv_cq* cq = nullptr;
    void* context;
    ASSERT_EQ(ibv_get_cq_event(pair.b.channel, &cq, &context), 0);
    ibv_ack_cq_events(cq, 1);
    EXPECT_EQ(completion(pair.b.receive_cq).status, IBV_WC_WR_FLUSH_ERR);
}

// While the queue's destruction waits for an acknowledgement, the time of another event comes.
TEST(Moderation, ADestroyedQueueGivesNoEvent) {
    Options options;
    options.with_channel = true;
    Pair pair(options);
    ibv_cq* const queue = pair.b.receive_cq;
    ibv_comp_channel* const channel = pair.b.channel;
    for (std::uint64_t id = 0; id < 2; id++) ASSERT_EQ(pair.b.post_receive(id, nullptr, 0), 0);
    const auto send = [&] {
        ASSERT_EQ(ibv_req_notify_cq(queue, 0), 0);
        ASSERT_EQ(Request(1, IBV_WR_SEND, nullptr, 0).post(pair.a.qp), 0);
        success(pair.a.send_cq);
    };
    send();
    ASSERT_TRUE(readable(channel->fd, kPatienceMs));
    ibv_cq* cq = nullptr;
    void* context;
    ASSERT_EQ(ibv_get_cq_event(channel, &cq, &context), 0);
    ibv_modify_cq_attr attributes{IBV_CQ_ATTR_MODERATE, {100, 60'000}};
    ASSERT_EQ(ibv_modify_cq(queue, &attributes), 0);
    send();
    ASSERT_EQ(ibv_destroy_qp(std::exchange(pair.b.qp, nullptr)), 0);
    ASSERT_EQ(ibv_destroy_cq(pair.b.send_cq), 0);
    pair.b.send_cq = ibv_create_cq(pair.b.context, 1, nullptr, nullptr, 0);
    pair.b.receive_cq = nullptr;
    std::thread destroyer([&] { EXPECT_EQ(ibv_destroy_cq(queue), 0); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_TRUE(refused(EBUSY, [&] { return ibv_destroy_comp_channel(channel); })) << "it is still there";
    EXPECT_FALSE(readable(channel->fd, 150));
    ibv_ack_cq_events(queue, 1);
    destroyer.join();
    EXPECT_FALSE(readable(channel->fd));
}

TEST(RealTime, TheRawClockRuns) {
    Side side;
    ibv_values_ex values{IBV_VALUES_MASK_RAW_CLOCK, {}};
    ASSERT_EQ(ibv_query_rt_values_ex(side.context, &values), 0);
    const long first = values.raw_clock.tv_nsec;
    EXPECT_GT(first, 0);
    ASSERT_EQ(ibv_query_rt_values_ex(side.context, &values), 0);
    EXPECT_GE(values.raw_clock.tv_nsec, first);
    values.comp_mask = 1u << 5;
    EXPECT_TRUE(refused(EOPNOTSUPP, [&] { return ibv_query_rt_values_ex(side.context, &values); }));
}

TEST(ParentDomain, StandsForItsProtectionDomain) {
    Side side;
    ibv_td_init_attr nothing{};
    ibv_td* td = ibv_alloc_td(side.context, &nothing);
    ASSERT_NE(td, nullptr);
    ibv_parent_domain_init_attr attributes{};
    attributes.pd = side.pd;
    attributes.td = td;
    ibv_pd* domain = ibv_alloc_parent_domain(side.context, &attributes);
    ASSERT_NE(domain, nullptr);
    EXPECT_TRUE(refused(EBUSY, [&] { return ibv_dealloc_td(td); }));

    ibv_cq_init_attr_ex with_domain = plain();
    with_domain.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
    with_domain.parent_domain = domain;
    ibv_cq_ex* cq = ibv_create_cq_ex(side.context, &with_domain);
    ASSERT_NE(cq, nullptr);
    ibv_qp_init_attr setup = side.setup();
    setup.recv_cq = ibv_cq_ex_to_cq(cq);
    ibv_qp* qp = ibv_create_qp(domain, &setup);
    ASSERT_NE(qp, nullptr);
    EXPECT_EQ(qp->pd, domain);
    {
        Memory memory(domain, 4096);
        EXPECT_TRUE(refused(EBUSY, [&] { return ibv_dealloc_pd(domain); }));
    }
    EXPECT_TRUE(refused(EBUSY, [&] { return ibv_dealloc_pd(domain); })) << "the queue pair";
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    EXPECT_TRUE(refused(EBUSY, [&] { return ibv_dealloc_pd(domain); })) << "the completion queue";
    EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
    ibv_qp* still = side.qp;
    side.qp = nullptr;
    EXPECT_EQ(ibv_destroy_qp(still), 0);
    EXPECT_TRUE(refused(EBUSY, [&] { return ibv_dealloc_pd(side.pd); })) << "the parent domain";
    EXPECT_EQ(ibv_dealloc_pd(domain), 0);
    EXPECT_EQ(ibv_dealloc_td(td), 0);
}

// Memory of a parent domain is memory of its protection domain, and the reverse.
TEST(ParentDomain, SharesMemory) {
    Pair pair;
    ibv_parent_domain_init_attr attributes{};
    attributes.pd = pair.a.pd;
    ibv_pd* domain = ibv_alloc_parent_domain(pair.a.context, &attributes);
    ASSERT_NE(domain, nullptr);
    {
        Memory local(domain, 64), remote(pair.b.pd, 64);
        local.fill(3);
        ibv_sge sge = local.sge(0, 64);
        ASSERT_EQ(Request(1, IBV_WR_RDMA_WRITE, &sge, 1).to(remote).post(pair.a.qp), 0);
        success(pair.a.send_cq);
        EXPECT_TRUE(remote.holds(3, 64));
    }
    EXPECT_EQ(ibv_dealloc_pd(domain), 0);
}

TEST(ParentDomain, WhatCannotBeAskedFor) {
    Side side, other;
    ibv_td_init_attr unknown{1};
    EXPECT_TRUE(refused_null(EINVAL, [&] { return ibv_alloc_td(side.context, &unknown); }));
    auto refused_with = [&](const std::function<void(ibv_parent_domain_init_attr&)>& spoil) {
        ibv_parent_domain_init_attr attributes{};
        attributes.pd = side.pd;
        spoil(attributes);
        return refused_null(EINVAL, [&] { return ibv_alloc_parent_domain(side.context, &attributes); });
    };
    EXPECT_TRUE(refused_with([](auto& a) { a.pd = nullptr; }));
    EXPECT_TRUE(refused_with([](auto& a) { a.comp_mask = 1u << 9; }));
    EXPECT_TRUE(refused_with([&](auto& a) { a.pd = other.pd; }));
    EXPECT_TRUE(refused_with([](auto& a) { a.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS; }));
}

}  // namespace
}  // namespace verbena::verbs_test
