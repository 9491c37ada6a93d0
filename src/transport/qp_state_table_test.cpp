#include "transport/qp_state_table.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "base/reason.h"

namespace verbena::transport {
namespace {

using enum QpState;

constexpr QpState kStates[] = {reset, init, rtr, rts, sqd, sqe, error};
constexpr Service kServices[] = {Service::rc, Service::uc, Service::ud, Service::xrc_send,
                                 Service::xrc_receive};

TEST(QpStateTable, AllowedTransitions) {
    // Rows from, columns to, in the order of kStates. 'd': datagram and UC only.
    const char* kAllowed[] = {"xx....x", "xxx...x", "x..x..x", "x..xx.x", "x..xx.x", "x..d..x", "x.....x"};
    for (const Service s : kServices)
        for (int from = 0; from < 7; from++)
            for (int to = 0; to < 7; to++) {
                const char c = kAllowed[from][to];
                const bool wanted = c == 'x' || (c == 'd' && (s == Service::ud || s == Service::uc));
                EXPECT_EQ(transition(s, kStates[from], kStates[to]).allowed, wanted)
                    << to_string(s) << " " << to_string(kStates[from]) << "->" << to_string(kStates[to]);
            }
}

TEST(QpStateTable, RequiredAttributes) {
    struct Row {
        Service service;
        QpState from, to;
        std::uint32_t required;
    };
    constexpr std::uint32_t kConnect = kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn;
    const Row kRows[] = {
        {Service::rc, reset, init, kAttrPkeyIndex | kAttrPort | kAttrAccessFlags},
        {Service::ud, reset, init, kAttrPkeyIndex | kAttrPort | kAttrQkey},
        {Service::rc, init, rtr, kConnect | kAttrMaxDestRdAtomic | kAttrMinRnrTimer},
        {Service::uc, init, rtr, kConnect},
        {Service::ud, init, rtr, 0},
        {Service::xrc_send, init, rtr, kConnect},
        {Service::xrc_receive, init, rtr, kConnect | kAttrMaxDestRdAtomic | kAttrMinRnrTimer},
        {Service::rc, rtr, rts,
         kAttrTimeout | kAttrRetryCount | kAttrRnrRetry | kAttrSqPsn | kAttrMaxQpRdAtomic},
        {Service::uc, rtr, rts, kAttrSqPsn},
        {Service::ud, rtr, rts, kAttrSqPsn},
        {Service::xrc_send, rtr, rts,
         kAttrTimeout | kAttrRetryCount | kAttrRnrRetry | kAttrSqPsn | kAttrMaxQpRdAtomic},
        {Service::xrc_receive, rtr, rts, kAttrTimeout | kAttrSqPsn},
    };
    for (const Row& row : kRows)
        EXPECT_EQ(transition(row.service, row.from, row.to).required, row.required)
            << to_string(row.service) << " " << to_string(row.from);
}

TEST(QpStateTable, ReasonsNameTheAttribute) {
    Attributes a;
    QpState to;
    a.state = init;
    EXPECT_EQ(check_modify(Service::rc, reset, a, kAttrState | kAttrPkeyIndex | kAttrPort, to), EINVAL);
    EXPECT_EQ(std::string(last_reason()), "RESET->INIT of an RC QP needs IBV_QP_ACCESS_FLAGS");
    a.port = 1;
    EXPECT_EQ(
        check_modify(Service::rc, reset, a,
                     kAttrState | kAttrPkeyIndex | kAttrPort | kAttrAccessFlags | kAttrQkey | kAttrSqPsn, to),
        EINVAL);
    EXPECT_EQ(std::string(last_reason()), "RESET->INIT of an RC QP does not take IBV_QP_QKEY, IBV_QP_SQ_PSN");
    a.state = rts;
    EXPECT_EQ(check_modify(Service::rc, init, a, kAttrState, to), EINVAL);
    EXPECT_EQ(std::string(last_reason()), "INIT->RTS is no transition of an RC QP");
    a.current_state = rtr;
    EXPECT_EQ(check_modify(Service::rc, rts, a, kAttrState | kAttrCurrentState, to), EINVAL);
    EXPECT_EQ(std::string(last_reason()), "cur_qp_state is RTR, but the QP is in RTS");
}

TEST(QpStateTable, ValuesAreChecked) {
    const auto refused = [](auto set) {
        Attributes a;
        a.state = rtr;
        a.path.destination = Gid::from_ipv4(1);
        set(a);
        QpState to;
        return check_modify(Service::rc, init, a,
                            kAttrState | kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn |
                                kAttrMaxDestRdAtomic | kAttrMinRnrTimer,
                            to);
    };
    EXPECT_EQ(refused([](Attributes&) {}), 0);
    EXPECT_EQ(refused([](Attributes& a) { a.path_mtu = 1500; }), EINVAL);
    EXPECT_EQ(refused([](Attributes& a) { a.min_rnr_timer = 32; }), EINVAL);
    EXPECT_EQ(refused([](Attributes& a) { a.destination_qp = 0x1000000; }), EINVAL);
    EXPECT_EQ(refused([](Attributes& a) { a.path.destination = Gid{}; }), EINVAL);
    EXPECT_EQ(refused([](Attributes& a) { a.max_destination_rd_atomic = 200; }), EINVAL);
}

TEST(QpStateTable, WithoutAStateTheStateStays) {
    Attributes a;
    QpState to = reset;
    EXPECT_EQ(check_modify(Service::rc, rts, a, kAttrAccessFlags, to), 0);
    EXPECT_EQ(to, rts);
}

}  // namespace
}  // namespace verbena::transport
