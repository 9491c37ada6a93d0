// What the manual pages and the specification promise of calls that are right, beside the refusals of the
// other files: addresses of regions, messages of no length, events of queue pairs, several queues on one
// channel, descriptions of values that do not exist.
#include <array>
#include <memory>
#include <string>

#include "harness.h"

namespace verbena::verbs_test {
namespace {

// ibv_reg_mr(3): what a region's first byte is called, by its own side and by the peer.
struct Base {
    const char* name;
    std::uint64_t iova;
    int flags;
    std::uint64_t first;  // 0: the address
};
void PrintTo(const Base& base, std::ostream* out) { *out << base.name; }

class Bases : public testing::TestWithParam<Base> {
   protected:
    struct Registered {
        Registered(Side& side, const Base& base) {
            mr = ibv_reg_mr_iova2(side.pd, bytes.data(), bytes.size(), base.iova ? base.iova : address(),
                                  static_cast<unsigned>(kAllAccess | base.flags));
            first = base.flags & IBV_ACCESS_ZERO_BASED ? 0 : base.iova ? base.iova : address();
        }
        ~Registered() { EXPECT_EQ(ibv_dereg_mr(mr), 0); }
        Registered(const Registered&) = delete;
        Registered& operator=(const Registered&) = delete;
        std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(bytes.data()); }
        ibv_sge sge(std::uint64_t offset, std::uint32_t length) const {
            return {first + offset, length, mr->lkey};
        }
        alignas(4096) std::array<std::uint8_t, 8192> bytes{};
        ibv_mr* mr = nullptr;
        std::uint64_t first = 0;
    };
};

TEST_P(Bases, NameTheSameBytes) {
    Pair pair;
    Registered here(pair.a, GetParam()), there(pair.b, GetParam());
    ASSERT_TRUE(here.mr && there.mr) << std::strerror(errno);
    const auto run = [&](ibv_wr_opcode opcode, std::uint64_t from, std::uint64_t to, std::uint32_t length) {
        ibv_sge sge = here.sge(from, length);
        Request request(1, opcode, &sge, 1);
        request.wr.rdma.remote_addr = there.first + to;
        request.wr.rdma.rkey = there.mr->rkey;
        ASSERT_EQ(request.post(pair.a.qp), 0);
    };
    here.bytes[100] = 1;
    here.bytes[8191] = 2;
    run(IBV_WR_RDMA_WRITE, 100, 0, 1);
    success(pair.a.send_cq);
    run(IBV_WR_RDMA_WRITE, 8191, 8191, 1);
    success(pair.a.send_cq);
    EXPECT_EQ(there.bytes[0], 1);
    EXPECT_EQ(there.bytes[8191], 2);
    there.bytes[4097] = 3;
    run(IBV_WR_RDMA_READ, 4000, 4096, 8);
    success(pair.a.send_cq);
    EXPECT_EQ(here.bytes[4001], 3);
    // A message into the region, and an end behind it.
    ASSERT_EQ(pair.b.post_receive(7, there.sge(16, 8)), 0);
    ibv_sge sge = here.sge(100, 8);
    ASSERT_EQ(Request(2, IBV_WR_SEND, &sge, 1).post(pair.a.qp), 0);
    success(pair.a.send_cq);
    EXPECT_EQ(success(pair.b.receive_cq).byte_len, 8u);
    EXPECT_EQ(there.bytes[16], 1);
    run(IBV_WR_RDMA_WRITE, 0, 8185, 8);
    EXPECT_EQ(completion(pair.a.send_cq).status, IBV_WC_REM_ACCESS_ERR);
}

INSTANTIATE_TEST_SUITE_P(Registrations, Bases,
                         testing::Values(Base{"address", 0, 0, 0}, Base{"iova", 0x7000'0000'1000, 0, 0},
                                         Base{"zero_based", 0, IBV_ACCESS_ZERO_BASED, 0}),
                         [](const auto& base) { return base.param.name; });

// IBA 9.4.3, 10.8.1.1: nothing is touched, so no key is looked at.
TEST(NoLength, NeedsNoKeys) {
    Pair pair;
    ibv_sge empty{0x1234, 0, kNoKey};
    for (const int elements : {0, 1}) {
        for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND}) {
            if (opcode == IBV_WR_SEND) {
                ASSERT_EQ(pair.b.post_receive(1, &empty, elements), 0);
            }
            Request request(1, opcode, &empty, elements);
            request.wr.rdma.remote_addr = 0x5678;
            request.wr.rdma.rkey = kNoKey;
            ASSERT_EQ(request.post(pair.a.qp), 0);
            success(pair.a.send_cq);
            if (opcode == IBV_WR_SEND) {
                EXPECT_EQ(success(pair.b.receive_cq).byte_len, 0u);
            }
        }
        Request request(1, IBV_WR_RDMA_WRITE_WITH_IMM, &empty, elements);
        request.imm_data = 0x01020304;
        request.wr.rdma.rkey = kNoKey;
        ASSERT_EQ(pair.b.post_receive(2, nullptr, 0), 0);
        ASSERT_EQ(request.post(pair.a.qp), 0);
        success(pair.a.send_cq);
        EXPECT_EQ(success(pair.b.receive_cq).imm_data, 0x01020304u);
    }
}

// Elements of no length between others take nothing and give nothing.
TEST(NoLength, ElementsAmongOthers) {
    Pair pair;
    Memory from(pair.a.pd, 64), to(pair.b.pd, 64);
    from.fill(1);
    ibv_sge pieces[] = {from.sge(0, 8), {0, 0, kNoKey}, from.sge(8, 8)};
    ibv_sge places[] = {{0, 0, kNoKey}, to.sge(0, 4), to.sge(4, 12)};
    ASSERT_EQ(pair.b.post_receive(1, places, 3), 0);
    ASSERT_EQ(Request(1, IBV_WR_SEND, pieces, 3).post(pair.a.qp), 0);
    success(pair.a.send_cq);
    EXPECT_EQ(success(pair.b.receive_cq).byte_len, 16u);
    EXPECT_TRUE(to.holds(1, 16));
}

// ibv_poll_cq(3): at most as many as asked for, and none for none.
TEST(Poll, NoneAskedFor) {
    Pair pair;
    ASSERT_EQ(pair.b.post_receive(1, nullptr, 0), 0);
    ASSERT_EQ(Request(5, IBV_WR_SEND, nullptr, 0).post(pair.a.qp), 0);
    success(pair.b.receive_cq);
    ibv_wc wc{};
    for (const int count : {0, -1}) EXPECT_EQ(ibv_poll_cq(pair.a.send_cq, count, &wc), 0);
    EXPECT_EQ(success(pair.a.send_cq).wr_id, 5u);
}

// ibv_get_cq_event(3): each event names its queue; several are acknowledged by one call.
TEST(Channel, ServesSeveralQueues) {
    Options options;
    options.with_channel = true;
    Pair pair(options);
    for (ibv_cq* cq : {pair.a.send_cq, pair.a.receive_cq}) ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
    ASSERT_EQ(pair.b.post_receive(1, nullptr, 0), 0);
    ASSERT_EQ(pair.a.post_receive(2, nullptr, 0), 0);
    ASSERT_EQ(Request(1, IBV_WR_SEND, nullptr, 0).post(pair.a.qp), 0);
    success(pair.a.send_cq);
    ASSERT_EQ(Request(2, IBV_WR_SEND, nullptr, 0).post(pair.b.qp), 0);
    success(pair.a.receive_cq);
    for (ibv_cq* expected : {pair.a.send_cq, pair.a.receive_cq}) {
        ibv_cq* cq = nullptr;
        void* context = nullptr;
        ASSERT_TRUE(readable(pair.a.channel->fd, kPatienceMs));
        ASSERT_EQ(ibv_get_cq_event(pair.a.channel, &cq, &context), 0);
        EXPECT_EQ(cq, expected);
        EXPECT_EQ(context, &pair.a);
        ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
    }
    // A second one of the same queue.
    ASSERT_EQ(pair.b.post_receive(3, nullptr, 0), 0);
    ASSERT_EQ(Request(3, IBV_WR_SEND, nullptr, 0).post(pair.a.qp), 0);
    success(pair.a.send_cq);
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    ASSERT_TRUE(readable(pair.a.channel->fd, kPatienceMs));
    ASSERT_EQ(ibv_get_cq_event(pair.a.channel, &cq, &context), 0);
    EXPECT_EQ(cq, pair.a.send_cq);
    ibv_ack_cq_events(pair.a.send_cq, 2);
    ibv_ack_cq_events(pair.a.receive_cq, 1);
}

// IBA 11.6.3.1: the first message in RTR, which is received all the same.
TEST(QueuePairEvents, CommunicationEstablished) {
    Options options;
    options.connect = false;
    Pair pair(options);
    for (Side* side : {&pair.a, &pair.b}) ASSERT_EQ(side->to_init(), 0);
    ASSERT_EQ(pair.a.to_rtr(pair.b.gid(), pair.b.qp->qp_num), 0);
    ASSERT_EQ(pair.b.to_rtr(pair.a.gid(), pair.a.qp->qp_num), 0);
    ASSERT_EQ(pair.a.to_rts(), 0);
    for (std::uint64_t id = 0; id < 2; id++) {
        ASSERT_EQ(pair.b.post_receive(id, nullptr, 0), 0);
        ASSERT_EQ(Request(id, IBV_WR_SEND, nullptr, 0).post(pair.a.qp), 0);
        EXPECT_EQ(success(pair.b.receive_cq).wr_id, id);
        success(pair.a.send_cq);
    }
    ibv_async_event event;
    ASSERT_TRUE(next_event(pair.b.context, event));
    EXPECT_EQ(event.event_type, IBV_EVENT_COMM_EST);
    EXPECT_EQ(event.element.qp, pair.b.qp);
    EXPECT_EQ(pair.b.to_rts(), 0);
    EXPECT_FALSE(readable(pair.b.context->async_fd)) << "once";
}

// IBA 10.2.9.4, 11.6.3.1: a queue pair in error takes no more from its shared queue; each says so once.
TEST(QueuePairEvents, LastRequestReached) {
    for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
        Options options;
        options.shared_receives = 4;
        options.type = type;
        Pair pair(options);
        ASSERT_EQ(pair.a.post_receive(1, nullptr, 0), 0);
        ASSERT_EQ(pair.a.to_state(IBV_QPS_ERR), 0);
        ASSERT_EQ(pair.a.to_state(IBV_QPS_ERR), 0);
        ibv_async_event event;
        ASSERT_TRUE(next_event(pair.a.context, event));
        EXPECT_EQ(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
        EXPECT_EQ(event.element.qp, pair.a.qp);
        EXPECT_FALSE(readable(pair.a.context->async_fd));
        EXPECT_TRUE(empty(pair.a.receive_cq)) << "the request stays in the queue";
        // After a reset it begins anew.
        ASSERT_EQ(pair.a.to_state(IBV_QPS_RESET), 0);
        ASSERT_EQ(pair.a.to_state(IBV_QPS_ERR), 0);
        ASSERT_TRUE(next_event(pair.a.context, event));
        EXPECT_EQ(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
    }
}

// What the object's creator asked for, before anything is modified.
TEST(Query, OfANewQueuePair) {
    Side side{Options{.signal_all = true, .connect = false}};
    ibv_qp_attr got{};
    ibv_qp_init_attr setup{};
    ASSERT_EQ(ibv_query_qp(side.qp, &got, IBV_QP_STATE | IBV_QP_CAP, &setup), 0);
    EXPECT_EQ(got.qp_state, IBV_QPS_RESET);
    EXPECT_EQ(side.qp->state, IBV_QPS_RESET);
    EXPECT_GE(got.cap.max_send_wr, side.options.cap.max_send_wr);
    EXPECT_EQ(setup.sq_sig_all, 1);
    EXPECT_EQ(setup.srq, nullptr);
    EXPECT_EQ(setup.send_cq, side.send_cq);
    EXPECT_EQ(side.qp->qp_type, IBV_QPT_RC);
    EXPECT_EQ(ibv_query_qp(side.qp, &got, IBV_QP_STATE, nullptr), 0);
    EXPECT_GT(side.qp->qp_num, 1u) << "0 and 1 are the management's";
    EXPECT_LT(side.qp->qp_num, 1u << 24);
}

// What a program reads in the queue pair itself is what it has set or asked for, whatever has happened
// meanwhile.
TEST(Query, TellsAStateToWhoAsksForIt) {
    Pair pair;
    Memory memory(pair.a.pd, 64);
    ibv_sge sge = memory.sge(0, 64);
    sge.lkey ^= 0x5555;
    Request request(1, IBV_WR_SEND, &sge, 1);
    ASSERT_EQ(request.post(pair.a.qp), 0);
    EXPECT_EQ(completion(pair.a.send_cq).status, IBV_WC_LOC_PROT_ERR);
    ibv_qp_attr got{};
    ibv_qp_init_attr setup{};
    ASSERT_EQ(ibv_query_qp(pair.a.qp, &got, IBV_QP_AV | IBV_QP_DEST_QPN, &setup), 0);
    EXPECT_EQ(pair.a.qp->state, IBV_QPS_RTS);
    EXPECT_EQ(got.dest_qp_num, pair.b.qp->qp_num);
    ASSERT_EQ(ibv_query_qp(pair.a.qp, &got, IBV_QP_STATE, &setup), 0);
    EXPECT_EQ(got.qp_state, IBV_QPS_ERR);
    EXPECT_EQ(pair.a.qp->state, IBV_QPS_ERR);
}

// Regions may overlap, each with its own rights and its own end.
TEST(Regions, OfTheSameMemory) {
    Pair pair;
    Memory from(pair.a.pd, 64), all(pair.b.pd, 64);
    const int access = IBV_ACCESS_REMOTE_READ;
    ibv_mr* readable_only = ibv_reg_mr(pair.b.pd, all.data(), 64, access);
    ASSERT_TRUE(readable_only);
    EXPECT_NE(readable_only->rkey, all.mr->rkey);
    ibv_sge sge = from.sge(0, 64);
    Request read(1, IBV_WR_RDMA_READ, &sge, 1);
    read.to(all);
    read.wr.rdma.rkey = readable_only->rkey;
    ASSERT_EQ(read.post(pair.a.qp), 0);
    success(pair.a.send_cq);
    ASSERT_EQ(Request(2, IBV_WR_RDMA_WRITE, &sge, 1).to(all).post(pair.a.qp), 0);
    success(pair.a.send_cq);
    Request write(3, IBV_WR_RDMA_WRITE, &sge, 1);
    write.to(all);
    write.wr.rdma.rkey = readable_only->rkey;
    ASSERT_EQ(write.post(pair.a.qp), 0);
    EXPECT_EQ(completion(pair.a.send_cq).status, IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(ibv_dereg_mr(readable_only), 0);
}

TEST(Text, OfValuesThatDoNotExist) {
    const std::string kTexts[] = {
        ibv_wc_status_str(static_cast<ibv_wc_status>(9999)),
        ibv_event_type_str(static_cast<ibv_event_type>(9999)),
        ibv_node_type_str(static_cast<ibv_node_type>(9999)),
        ibv_port_state_str(static_cast<ibv_port_state>(9999)),
        ibv_wc_status_str(static_cast<ibv_wc_status>(-1)),
    };
    EXPECT_STREQ(ibv_event_type_str(static_cast<ibv_event_type>(20)), "Device link speed change")
        << "of release 62 on";
    for (const std::string& text : kTexts) EXPECT_NE(text.find("unknown"), std::string::npos) << text;
}

}  // namespace
}  // namespace verbena::verbs_test
