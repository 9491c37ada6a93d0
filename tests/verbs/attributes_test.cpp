// ibv_modify_qp: every transition of each kind of queue pair with each attribute that it needs left out, each
// that it does not take given, and each value out of range; and that ibv_query_qp returns what was set. The
// table is the specification's (IBA 11.2.5.3), written down here again.
#include <fcntl.h>

#include <optional>
#include <span>

#include "harness.h"

namespace verbena::verbs_test {
namespace {

// The bits of one kind of queue pair. XRC's halves ignore what the other half has.
struct Bits {
    ibv_qp_type type;
    const char* name;
    int init, connect, start;  // needed on the way from RESET to RTS
    int running;               // may change from RTR on, with each change of state
    int rate;                  // RTR to RTS and RTS to RTS
    int at_rtr;                // may come with INIT to RTR
    int stopped;               // SQD to SQD
    int ignored;
};
constexpr int kAddress = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
constexpr int kResponder = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kRetries = IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
constexpr int kConnect = kAddress | kResponder;
constexpr int kStart = IBV_QP_TIMEOUT | kRetries | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
constexpr int kInit = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kAccess = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS;
constexpr int kKey = IBV_QP_CUR_STATE | IBV_QP_QKEY;
constexpr int kConnectedRtr = IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX;
constexpr int kConnectedStopped = IBV_QP_AV | kConnectedRtr;
constexpr int kReliableStopped = kConnectedStopped | IBV_QP_PORT | IBV_QP_TIMEOUT;
constexpr Bits kRc = {IBV_QPT_RC,
                      "RC",
                      kInit,
                      kConnect,
                      kStart,
                      kAccess | IBV_QP_MIN_RNR_TIMER,
                      IBV_QP_RATE_LIMIT,
                      kConnectedRtr,
                      kReliableStopped | kRetries | IBV_QP_MAX_QP_RD_ATOMIC | kResponder,
                      0};
constexpr Bits kKinds[] = {
    kRc,
    {IBV_QPT_UC, "UC", kInit, kAddress, IBV_QP_SQ_PSN, kAccess, IBV_QP_RATE_LIMIT, kConnectedRtr,
     kConnectedStopped, 0},
    {IBV_QPT_UD, "UD", IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0, IBV_QP_SQ_PSN, kKey,
     IBV_QP_RATE_LIMIT, IBV_QP_PKEY_INDEX | IBV_QP_QKEY, IBV_QP_PKEY_INDEX | IBV_QP_QKEY, 0},
    {IBV_QPT_XRC_SEND, "XRC_SEND", kInit, kAddress, kStart, kAccess, 0, kConnectedRtr,
     kReliableStopped | kRetries | IBV_QP_MAX_QP_RD_ATOMIC, kResponder},
    {IBV_QPT_XRC_RECV, "XRC_RECV", kInit, kConnect, IBV_QP_TIMEOUT | IBV_QP_SQ_PSN,
     kAccess | IBV_QP_MIN_RNR_TIMER, 0, kConnectedRtr, kReliableStopped | kResponder,
     kRetries | IBV_QP_MAX_QP_RD_ATOMIC},
};
// Known, and refused as not supported wherever they come.
constexpr int kUnsupported = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | IBV_QP_CAP;
constexpr int kLastBit = 25;

struct Rule {
    int required, optional;
};

// SQE, which a failed send of an unreliable service leads to, is in uc_test.cpp and datagram_test.cpp.
constexpr ibv_qp_state kStates[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
                                    IBV_QPS_RTS,   IBV_QPS_SQD,  IBV_QPS_ERR};

std::optional<Rule> rule(const Bits& bits, ibv_qp_state from, ibv_qp_state to) {
    const auto is = [&](ibv_qp_state a, ibv_qp_state b) { return from == a && to == b; };
    if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) return Rule{0, 0};
    if (is(IBV_QPS_RESET, IBV_QPS_INIT)) return Rule{bits.init, 0};
    if (is(IBV_QPS_INIT, IBV_QPS_INIT)) return Rule{0, bits.init};
    if (is(IBV_QPS_INIT, IBV_QPS_RTR)) return Rule{bits.connect, bits.at_rtr};
    if (is(IBV_QPS_RTR, IBV_QPS_RTS)) return Rule{bits.start, bits.running | bits.rate};
    if (is(IBV_QPS_RTS, IBV_QPS_RTS)) return Rule{0, bits.running | bits.rate};
    if (is(IBV_QPS_RTS, IBV_QPS_SQD)) return Rule{0, IBV_QP_EN_SQD_ASYNC_NOTIFY};
    if (is(IBV_QPS_SQD, IBV_QPS_RTS)) return Rule{0, bits.running};
    if (is(IBV_QPS_SQD, IBV_QPS_SQD)) return Rule{0, bits.stopped};
    return {};
}

// One queue pair of a kind, unconnected.
class Subject {
   public:
    explicit Subject(const Bits& bits) : kind(bits), gid(side.gid()) {
        ibv_qp_init_attr_ex setup{};
        const ibv_qp_init_attr plain = side.setup();
        setup.qp_type = kind.type;
        setup.send_cq = plain.send_cq;
        setup.recv_cq = plain.recv_cq;
        setup.cap = plain.cap;
        setup.comp_mask = IBV_QP_INIT_ATTR_PD;
        setup.pd = side.pd;
        if (kind.type == IBV_QPT_XRC_RECV) {
            ibv_xrcd_init_attr domain{};
            domain.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
            domain.fd = -1;
            domain.oflags = O_CREAT;
            setup.comp_mask = IBV_QP_INIT_ATTR_XRCD;
            setup.xrcd = xrcd = ibv_open_xrcd(side.context, &domain);
        }
        qp = ibv_create_qp_ex(side.context, &setup);
        if (!qp) ADD_FAILURE() << std::strerror(errno);
    }
    ~Subject() {
        EXPECT_EQ(ibv_destroy_qp(qp), 0);
        if (xrcd) {
            EXPECT_EQ(ibv_close_xrcd(xrcd), 0);
        }
    }
    Subject(const Subject&) = delete;
    Subject& operator=(const Subject&) = delete;

    ibv_qp_state state() const {
        ibv_qp_attr got;
        ibv_qp_init_attr setup;
        EXPECT_EQ(ibv_query_qp(qp, &got, IBV_QP_STATE, &setup), 0);
        return got.qp_state;
    }
    // Values that are right for any transition to `to` from the present state.
    ibv_qp_attr good(ibv_qp_state to) const {
        ibv_qp_attr attributes{};
        attributes.qp_state = to;
        attributes.cur_qp_state = state();
        attributes.path_mtu = IBV_MTU_1024;
        attributes.port_num = 1;
        attributes.dest_qp_num = 0x123456;
        attributes.ah_attr.is_global = 1;
        attributes.ah_attr.port_num = 1;
        attributes.ah_attr.grh.dgid = gid;
        attributes.ah_attr.grh.hop_limit = 3;
        attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 1;
        return attributes;
    }
    int modify(ibv_qp_state to, int mask) {
        ibv_qp_attr attributes = good(to);
        return ibv_modify_qp(qp, &attributes, mask);
    }
    void bring_to(ibv_qp_state wanted) {
        ASSERT_EQ(modify(IBV_QPS_RESET, IBV_QP_STATE), 0);
        static constexpr ibv_qp_state kWay[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD};
        if (wanted == IBV_QPS_ERR) {
            ASSERT_EQ(modify(wanted, IBV_QP_STATE), 0);
        } else if (wanted != IBV_QPS_RESET) {
            for (ibv_qp_state next : kWay) {
                ASSERT_EQ(modify(next, IBV_QP_STATE | rule(kind, state(), next)->required), 0);
                if (next == wanted) break;
            }
        }
        ASSERT_EQ(state(), wanted);
    }

    const Bits& kind;
    Side side{Options{.connect = false}};
    const ibv_gid gid;
    ibv_xrcd* xrcd = nullptr;
    ibv_qp* qp = nullptr;
};

struct Transitions : testing::TestWithParam<Bits> {
    Subject subject{GetParam()};
};

TEST_P(Transitions, EachThatExists) {
    for (ibv_qp_state from : kStates)
        for (ibv_qp_state to : kStates) {
            SCOPED_TRACE(testing::Message() << from << " to " << to);
            subject.bring_to(from);
            const auto entry = rule(GetParam(), from, to);
            if (entry) {
                EXPECT_EQ(subject.modify(to, IBV_QP_STATE | entry->required), 0);
                EXPECT_EQ(subject.state(), to);
                EXPECT_EQ(subject.qp->state, to);
                subject.bring_to(from);
                EXPECT_EQ(subject.modify(to, IBV_QP_STATE | entry->required | entry->optional), 0);
            } else {
                EXPECT_TRUE(refused(EINVAL, [&] { return subject.modify(to, IBV_QP_STATE); }));
                EXPECT_EQ(subject.state(), from);
                EXPECT_EQ(subject.qp->state, from);
            }
        }
}

TEST_P(Transitions, EachAttributeTooManyOrMissing) {
    for (ibv_qp_state from : kStates)
        for (ibv_qp_state to : kStates) {
            const auto entry = rule(GetParam(), from, to);
            if (!entry) continue;
            for (int shift = 1; shift <= kLastBit; shift++) {
                const int bit = 1 << shift;
                if (bit & (entry->optional | GetParam().ignored)) continue;
                SCOPED_TRACE(testing::Message() << from << " to " << to << ", bit " << shift);
                subject.bring_to(from);
                EXPECT_TRUE(refused(bit & kUnsupported ? EOPNOTSUPP : EINVAL, [&] {
                    return subject.modify(to, (IBV_QP_STATE | entry->required) ^ bit);
                }));
                EXPECT_EQ(subject.state(), from);
            }
        }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Transitions, testing::ValuesIn(kKinds),
                         [](const auto& kind) { return kind.param.name; });

struct Attributes : testing::Test {
    Subject subject{kRc};
};

struct BadValue {
    const char* name;
    ibv_qp_state to;
    int bit;
    void (*spoil)(ibv_qp_attr&);
};

TEST_F(Attributes, EachValueOutOfRange) {
    const BadValue kValues[] = {
        {"state 7", static_cast<ibv_qp_state>(7), 0, [](ibv_qp_attr&) {}},
        {"state -1", static_cast<ibv_qp_state>(-1), 0, [](ibv_qp_attr&) {}},
        {"port 0", IBV_QPS_INIT, IBV_QP_PORT, [](ibv_qp_attr& a) { a.port_num = 0; }},
        {"port 2", IBV_QPS_INIT, IBV_QP_PORT, [](ibv_qp_attr& a) { a.port_num = 2; }},
        {"pkey", IBV_QPS_INIT, IBV_QP_PKEY_INDEX, [](ibv_qp_attr& a) { a.pkey_index = 1; }},
        {"access flags", IBV_QPS_INIT, IBV_QP_ACCESS_FLAGS, [](ibv_qp_attr& a) { a.qp_access_flags = ~0u; }},
        {"mtu 0", IBV_QPS_RTR, IBV_QP_PATH_MTU, [](ibv_qp_attr& a) { a.path_mtu = static_cast<ibv_mtu>(0); }},
        {"mtu 6", IBV_QPS_RTR, IBV_QP_PATH_MTU, [](ibv_qp_attr& a) { a.path_mtu = static_cast<ibv_mtu>(6); }},
        {"QPN", IBV_QPS_RTR, IBV_QP_DEST_QPN, [](ibv_qp_attr& a) { a.dest_qp_num = 0x1000000; }},
        {"depth", IBV_QPS_RTR, IBV_QP_MAX_DEST_RD_ATOMIC, [](ibv_qp_attr& a) { a.max_dest_rd_atomic = 129; }},
        {"RNR timer", IBV_QPS_RTR, IBV_QP_MIN_RNR_TIMER, [](ibv_qp_attr& a) { a.min_rnr_timer = 32; }},
        {"not global", IBV_QPS_RTR, IBV_QP_AV, [](ibv_qp_attr& a) { a.ah_attr.is_global = 0; }},
        {"address's port", IBV_QPS_RTR, IBV_QP_AV, [](ibv_qp_attr& a) { a.ah_attr.port_num = 2; }},
        {"GID index", IBV_QPS_RTR, IBV_QP_AV, [](ibv_qp_attr& a) { a.ah_attr.grh.sgid_index = 200; }},
        {"no GID", IBV_QPS_RTR, IBV_QP_AV, [](ibv_qp_attr& a) { a.ah_attr.grh.dgid = {}; }},
        {"timeout", IBV_QPS_RTS, IBV_QP_TIMEOUT, [](ibv_qp_attr& a) { a.timeout = 32; }},
        {"retry", IBV_QPS_RTS, IBV_QP_RETRY_CNT, [](ibv_qp_attr& a) { a.retry_cnt = 8; }},
        {"RNR retry", IBV_QPS_RTS, IBV_QP_RNR_RETRY, [](ibv_qp_attr& a) { a.rnr_retry = 8; }},
        {"initiator depth", IBV_QPS_RTS, IBV_QP_MAX_QP_RD_ATOMIC,
         [](ibv_qp_attr& a) { a.max_rd_atomic = 129; }},
        {"current state", IBV_QPS_RTS, IBV_QP_CUR_STATE,
         [](ibv_qp_attr& a) { a.cur_qp_state = IBV_QPS_INIT; }},
    };
    for (const BadValue& value : kValues) {
        SCOPED_TRACE(value.name);
        const ibv_qp_state from = value.to == IBV_QPS_RTS   ? IBV_QPS_RTR
                                  : value.to == IBV_QPS_RTR ? IBV_QPS_INIT
                                                            : IBV_QPS_RESET;
        subject.bring_to(from);
        ibv_qp_attr attributes = subject.good(value.to);
        value.spoil(attributes);
        const auto entry = rule(kRc, from, value.to);
        const int mask = IBV_QP_STATE | value.bit | (entry ? entry->required : 0);
        EXPECT_TRUE(refused(EINVAL, [&] { return ibv_modify_qp(subject.qp, &attributes, mask); }));
        EXPECT_EQ(subject.state(), from);
    }
}

TEST_F(Attributes, QueryReturnsWhatModifySet) {
    ibv_qp_attr set{}, got{};
    ibv_qp_init_attr setup{};
    set.qp_state = IBV_QPS_INIT;
    set.port_num = 1;
    set.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_LOCAL_WRITE;
    ASSERT_EQ(ibv_modify_qp(subject.qp, &set, IBV_QP_STATE | kInit), 0);
    set.qp_state = IBV_QPS_RTR;
    set.path_mtu = IBV_MTU_2048;
    set.dest_qp_num = 0xabcdef;
    set.rq_psn = 0xfedcba;
    set.max_dest_rd_atomic = 7;
    set.min_rnr_timer = 21;
    set.ah_attr.is_global = 1;
    set.ah_attr.port_num = 1;
    set.ah_attr.sl = 3;
    set.ah_attr.grh.dgid = subject.gid;
    set.ah_attr.grh.hop_limit = 17;
    set.ah_attr.grh.traffic_class = 0x68;
    set.ah_attr.grh.flow_label = 0x12345;
    ASSERT_EQ(ibv_modify_qp(subject.qp, &set, IBV_QP_STATE | kConnect), 0);
    set.qp_state = IBV_QPS_RTS;
    set.timeout = 19;
    set.retry_cnt = 3;
    set.rnr_retry = 5;
    set.sq_psn = 0x012345;
    set.max_rd_atomic = 9;
    ASSERT_EQ(ibv_modify_qp(subject.qp, &set, IBV_QP_STATE | kStart), 0);

    ASSERT_EQ(ibv_query_qp(subject.qp, &got, ~0, &setup), 0);
    EXPECT_EQ(got.qp_state, IBV_QPS_RTS);
    EXPECT_EQ(got.cur_qp_state, IBV_QPS_RTS);
    EXPECT_EQ(got.port_num, 1);
    EXPECT_EQ(got.qp_access_flags, set.qp_access_flags);
    EXPECT_EQ(got.path_mtu, set.path_mtu);
    EXPECT_EQ(got.dest_qp_num, set.dest_qp_num);
    EXPECT_EQ(got.rq_psn, set.rq_psn);
    EXPECT_EQ(got.sq_psn, set.sq_psn);
    EXPECT_EQ(got.max_dest_rd_atomic, 7);
    EXPECT_EQ(got.max_rd_atomic, 9);
    EXPECT_EQ(got.min_rnr_timer, 21);
    EXPECT_EQ(got.timeout, 19);
    EXPECT_EQ(got.retry_cnt, 3);
    EXPECT_EQ(got.rnr_retry, 5);
    EXPECT_EQ(got.ah_attr.grh.hop_limit, 64) << "a connection's is the route's";
    got.ah_attr.grh.hop_limit = set.ah_attr.grh.hop_limit;
    EXPECT_EQ(std::memcmp(&got.ah_attr, &set.ah_attr, sizeof set.ah_attr), 0);
    EXPECT_EQ(std::memcmp(&got.cap, &subject.side.options.cap, sizeof got.cap), 0);
    EXPECT_EQ(setup.send_cq, subject.side.send_cq);
    EXPECT_EQ(setup.recv_cq, subject.side.receive_cq);
    EXPECT_EQ(setup.qp_type, IBV_QPT_RC);
    EXPECT_EQ(std::memcmp(&setup.cap, &subject.side.options.cap, sizeof setup.cap), 0);
}

TEST_F(Attributes, SendQueueDrains) {
    subject.bring_to(IBV_QPS_RTS);
    ibv_qp_attr drain = subject.good(IBV_QPS_SQD);
    drain.en_sqd_async_notify = 1;
    ASSERT_EQ(ibv_modify_qp(subject.qp, &drain, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
    ibv_async_event event;
    ASSERT_TRUE(next_event(subject.side.context, event));
    EXPECT_EQ(event.event_type, IBV_EVENT_SQ_DRAINED);
    EXPECT_EQ(event.element.qp, subject.qp);
    ibv_qp_attr got;
    ibv_qp_init_attr setup;
    ASSERT_EQ(ibv_query_qp(subject.qp, &got, IBV_QP_STATE, &setup), 0);
    EXPECT_EQ(got.sq_draining, 0);
}

}  // namespace
}  // namespace verbena::verbs_test
