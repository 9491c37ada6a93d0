// Every call on an id in every state of its life: what works and what is refused; and destroying it there,
// after which its port is free, its channel is quiet and the peer knows.
#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <tuple>
#include <vector>

#include "fabric.h"

namespace verbena::rdmacm_test {
namespace {

constexpr int kRejConsumer = 28;
constexpr int kNothing = -1;

enum State {
    idle,
    bound,
    address_resolved,
    route_resolved,
    listening,
    connecting,   // asked, and the listener has not answered
    requested,    // the listener's child, before rdma_accept
    accepted,     // the child after rdma_accept; the peer has not confirmed
    established,  // active
    taken,        // established, passive
    leaving,      // has disconnected, the peer has not
    left,         // the peer has disconnected
    disconnected,
    kStates
};
constexpr const char* kStateNames[kStates] = {
    "idle",       "bound",     "address_resolved", "route_resolved", "listening",
    "connecting", "requested", "accepted",         "established",    "taken",
    "leaving",    "left",      "disconnected"};

// Two sides without queue pairs, and the id that is in the state.
struct Situation {
    explicit Situation(State state) {
        if (state == listening || state >= connecting) listener = server.listener("127.0.0.1", port);
        switch (state) {
            case idle:
                id = client.id();
                return;
            case bound:
                id = client.id();
                EXPECT_EQ(outcome(rdma_bind_addr(id, Address("127.0.0.1", 0).get())), 0);
                return;
            case address_resolved:
                id = client.id();
                EXPECT_EQ(outcome(rdma_resolve_addr(id, nullptr, Address("127.0.0.1", 9).get(), kResolveMs)),
                          0);
                client.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
                return;
            case route_resolved:
                id = client.resolved("127.0.0.1", 9);
                return;
            case listening:
                id = listener;
                return;
            default:
                converse(state);
        }
    }

    void converse(State state) {
        rdma_cm_id* active = client.resolved("127.0.0.1", port);
        auto parameters = parameters_for(unused_qp_number());
        EXPECT_EQ(outcome(rdma_connect(active, &parameters)), 0);
        id = active;
        peer = &server;
        rdma_cm_id* passive = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
        peer_id = passive;
        if (state == connecting) return;
        if (state == requested || state == accepted || state == taken) {
            id = passive;
            peer = &client;
            peer_id = active;
        }
        if (state == requested) return;
        parameters.qp_num = unused_qp_number();
        EXPECT_EQ(outcome(rdma_accept(passive, &parameters)), 0);
        client.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
        if (state == accepted) return;
        EXPECT_EQ(outcome(rdma_establish(active)), 0);
        server.expect(RDMA_CM_EVENT_ESTABLISHED);
        if (state == established || state == taken) return;
        if (state != left) {
            EXPECT_EQ(outcome(rdma_disconnect(active)), 0);
            server.expect(RDMA_CM_EVENT_DISCONNECTED);
        }
        if (state == leaving) return;
        EXPECT_EQ(outcome(rdma_disconnect(passive)), 0);
        client.expect(RDMA_CM_EVENT_DISCONNECTED);
    }

    Side server, client;
    std::uint16_t port = 0;
    rdma_cm_id *listener = nullptr, *id = nullptr, *peer_id = nullptr;
    Side* peer = nullptr;
};

struct Call {
    const char* name;
    std::function<int(rdma_cm_id*)> call;
    std::vector<State> works;           // elsewhere: EINVAL
    std::vector<State> connected = {};  // but there: EISCONN
};

const std::vector<Call>& calls() {
    static const std::vector<Call> table = {
        {"bind_addr",
         [](rdma_cm_id* id) { return rdma_bind_addr(id, Address("127.0.0.1", 0).get()); },
         {idle}},
        {"resolve_addr",
         [](rdma_cm_id* id) {
             return rdma_resolve_addr(id, nullptr, Address("127.0.0.1", 9).get(), kResolveMs);
         },
         {idle, bound}},
        {"resolve_route",
         [](rdma_cm_id* id) { return rdma_resolve_route(id, kResolveMs); },
         {address_resolved}},
        {"listen", [](rdma_cm_id* id) { return rdma_listen(id, 1); }, {idle, bound}},
        {"connect",
         [](rdma_cm_id* id) {
             auto parameters = parameters_for(unused_qp_number());
             return rdma_connect(id, &parameters);
         },
         {route_resolved}},
        {"accept",
         [](rdma_cm_id* id) {
             auto parameters = parameters_for(unused_qp_number());
             return rdma_accept(id, &parameters);
         },
         {requested}},
        {"reject",
         [](rdma_cm_id* id) { return rdma_reject(id, "no", 2); },
         {connecting, requested, accepted}},
        {"reject_ece",
         [](rdma_cm_id* id) { return rdma_reject_ece(id, "no", 2); },
         {connecting, requested, accepted}},
        {"disconnect",
         [](rdma_cm_id* id) { return rdma_disconnect(id); },
         {connecting, requested, accepted, established, taken, leaving, left, disconnected}},
        {"establish", [](rdma_cm_id* id) { return rdma_establish(id); }, {}},
        {"notify",
         [](rdma_cm_id* id) { return rdma_notify(id, IBV_EVENT_COMM_EST); },
         {accepted},
         {established, taken}},
        {"notify of another event", [](rdma_cm_id* id) { return rdma_notify(id, IBV_EVENT_QP_FATAL); }, {}},
        {"init_qp_attr, INIT",
         [](rdma_cm_id* id) {
             ibv_qp_attr attributes{};
             int mask = 0;
             attributes.qp_state = IBV_QPS_INIT;
             return rdma_init_qp_attr(id, &attributes, &mask);
         },
         {address_resolved, route_resolved, connecting, requested, accepted, established, taken}},
        {"init_qp_attr, RTR",
         [](rdma_cm_id* id) {
             ibv_qp_attr attributes{};
             int mask = 0;
             attributes.qp_state = IBV_QPS_RTR;
             return rdma_init_qp_attr(id, &attributes, &mask);
         },
         {address_resolved, route_resolved, requested, accepted, established, taken}},
        {"join_multicast",
         [](rdma_cm_id* id) { return rdma_join_multicast(id, Address("239.1.2.3", 0).get(), nullptr); },
         {}},
    };
    return table;
}

using Cell = std::tuple<std::size_t, int>;
class InState : public testing::TestWithParam<Cell> {};

TEST_P(InState, WorksOrIsRefused) {
    const Call& call = calls()[std::get<0>(GetParam())];
    const auto state = static_cast<State>(std::get<1>(GetParam()));
    Situation situation(state);
    const auto is_one_of = [state](const std::vector<State>& states) {
        return std::count(states.begin(), states.end(), state) > 0;
    };
    errno = 0;
    EXPECT_EQ(outcome(call.call(situation.id)), is_one_of(call.works)       ? 0
                                                : is_one_of(call.connected) ? EISCONN
                                                                            : EINVAL)
        << call.name << ", " << kStateNames[state];
}

INSTANTIATE_TEST_SUITE_P(Call, InState,
                         testing::Combine(testing::Range<std::size_t>(0, calls().size()),
                                          testing::Range(0, static_cast<int>(kStates))),
                         [](const auto& cell) {
                             std::string name;
                             for (const char* c = calls()[std::get<0>(cell.param)].name; *c; c++)
                                 if (std::isalnum(static_cast<unsigned char>(*c)) || *c == '_') name += *c;
                             return name + "_" + kStateNames[std::get<1>(cell.param)];
                         });

// What the peer hears when an id is destroyed.
struct Farewell {
    State state;
    int event;  // rdma_cm_event_type, or kNothing
    int status;
};
class Destroyed : public testing::TestWithParam<Farewell> {};

TEST_P(Destroyed, FreesEverythingAndThePeerKnows) {
    const Farewell& row = GetParam();
    Situation situation(row.state);
    const std::uint16_t own_port = source_port(situation.id);
    const bool child =
        situation.listener && situation.id != situation.listener && situation.peer == &situation.client;
    Side& own = child || row.state == listening ? situation.server : situation.client;
    EXPECT_EQ(outcome(own.destroy(situation.id)), 0);
    EXPECT_TRUE(own.quiet());
    if (row.event == kNothing) {
        if (situation.peer) {
            EXPECT_TRUE(situation.peer->quiet(50));
        }
    } else {
        Event event = situation.peer->expect(static_cast<rdma_cm_event_type>(row.event), row.status);
        EXPECT_EQ(event.id, situation.peer_id);
    }
    if (own_port && !child) {
        EXPECT_EQ(outcome(rdma_bind_addr(own.id(), Address("127.0.0.1", own_port).get())), 0);
    }
}

INSTANTIATE_TEST_SUITE_P(
    State, Destroyed,
    testing::Values(Farewell{idle, kNothing, 0}, Farewell{bound, kNothing, 0},
                    Farewell{address_resolved, kNothing, 0}, Farewell{route_resolved, kNothing, 0},
                    Farewell{listening, kNothing, 0},
                    Farewell{connecting, kNothing, 0},  // the child, not accepted, gets no events
                    Farewell{requested, RDMA_CM_EVENT_REJECTED, kRejConsumer},
                    Farewell{accepted, RDMA_CM_EVENT_REJECTED, kRejConsumer},
                    Farewell{established, RDMA_CM_EVENT_DISCONNECTED, 0},
                    Farewell{taken, RDMA_CM_EVENT_DISCONNECTED, 0}, Farewell{leaving, kNothing, 0},
                    Farewell{left, RDMA_CM_EVENT_DISCONNECTED, 0}, Farewell{disconnected, kNothing, 0}),
    [](const auto& row) { return kStateNames[row.param.state]; });

// The peer is not left waiting for another attempt; 255 bytes are more than any message has.
TEST(Answer, ThatNoMessageCarriesRejects) {
    static const std::uint8_t data[255]{};
    for (const int length : {197, 255}) {
        Situation situation(requested);
        auto parameters = parameters_for(unused_qp_number());
        parameters.private_data = data;
        parameters.private_data_len = static_cast<std::uint8_t>(length);
        EXPECT_EQ(outcome(rdma_accept(situation.id, &parameters)), EINVAL);
        situation.client.expect(RDMA_CM_EVENT_REJECTED, kRejConsumer);
        parameters.private_data_len = 0;
        EXPECT_EQ(outcome(rdma_accept(situation.id, &parameters)), EINVAL) << "the peer has gone";
    }
}

}  // namespace
}  // namespace verbena::rdmacm_test
