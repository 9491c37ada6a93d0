// Every rdma_* call, given arguments or an id's state that it must refuse: exactly -1 and the errno, never
// below.
#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "fabric.h"

namespace verbena::rdmacm_test {
namespace {

struct Mistake {
    const char* what;
    int error;
    std::function<int(Side&, rdma_cm_id*)> call;  // given a fresh id
};

ibv_qp_init_attr qp_attributes() {
    ibv_qp_init_attr attributes{};
    attributes.cap = {1, 1, 1, 1, 0};
    attributes.qp_type = IBV_QPT_RC;
    return attributes;
}

const std::vector<Mistake>& mistakes() {
    static const std::vector<Mistake> table = {
        {"create_id, no place for the id", EINVAL,
         [](Side& side, rdma_cm_id*) { return rdma_create_id(side.channel, nullptr, nullptr, RDMA_PS_TCP); }},
        {"create_id, port space 1", EINVAL,
         [](Side& side, rdma_cm_id*) {
             rdma_cm_id* id;
             return rdma_create_id(side.channel, &id, nullptr, static_cast<rdma_port_space>(1));
         }},
        {"create_id, not a channel", EINVAL,
         [](Side&, rdma_cm_id*) {
             rdma_event_channel stranger{0};
             rdma_cm_id* id;
             return rdma_create_id(&stranger, &id, nullptr, RDMA_PS_TCP);
         }},
        {"destroy_id(NULL)", EINVAL, [](Side&, rdma_cm_id*) { return rdma_destroy_id(nullptr); }},
        {"bind_addr(NULL)", EINVAL, [](Side&, rdma_cm_id* id) { return rdma_bind_addr(id, nullptr); }},
        {"bind_addr, family 0", EINVAL,
         [](Side&, rdma_cm_id* id) {
             sockaddr none{};
             return rdma_bind_addr(id, &none);
         }},
        {"bind_addr, not an address of this host", EADDRNOTAVAIL,
         [](Side&, rdma_cm_id* id) { return rdma_bind_addr(id, Address("192.0.2.1", 0).get()); }},
        {"bind_addr twice", EINVAL,
         [](Side&, rdma_cm_id* id) {
             rdma_bind_addr(id, Address("127.0.0.1", 0).get());
             return rdma_bind_addr(id, Address("127.0.0.1", 0).get());
         }},
        {"resolve_addr(NULL)", EINVAL,
         [](Side&, rdma_cm_id* id) { return rdma_resolve_addr(id, nullptr, nullptr, kResolveMs); }},
        {"resolve_addr twice", EINVAL,
         [](Side& side, rdma_cm_id* id) {
             rdma_resolve_addr(id, nullptr, Address("127.0.0.1", 1).get(), kResolveMs);
             side.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
             return rdma_resolve_addr(id, nullptr, Address("127.0.0.1", 1).get(), kResolveMs);
         }},
        {"resolve_addr of a listener", EINVAL,
         [](Side&, rdma_cm_id* id) {
             rdma_listen(id, 0);
             return rdma_resolve_addr(id, nullptr, Address("127.0.0.1", 1).get(), kResolveMs);
         }},
        {"resolve_route before resolve_addr", EINVAL,
         [](Side&, rdma_cm_id* id) { return rdma_resolve_route(id, kResolveMs); }},
        {"resolve_route twice", EINVAL,
         [](Side& side, rdma_cm_id*) {
             return rdma_resolve_route(side.resolved("127.0.0.1", 1), kResolveMs);
         }},
        {"listen twice", EINVAL,
         [](Side&, rdma_cm_id* id) {
             rdma_listen(id, 0);
             return rdma_listen(id, 0);
         }},
        {"listen after resolve_addr", EINVAL,
         [](Side& side, rdma_cm_id*) { return rdma_listen(side.resolved("127.0.0.1", 1), 0); }},
        {"connect, idle", EINVAL,
         [](Side&, rdma_cm_id* id) {
             rdma_conn_param parameters{};
             return rdma_connect(id, &parameters);
         }},
        {"connect without queue pair and parameters", EINVAL,
         [](Side& side, rdma_cm_id*) { return rdma_connect(side.resolved("127.0.0.1", 1), nullptr); }},
        {"connect, 57 bytes of private data", EINVAL,
         [](Side& side, rdma_cm_id*) {
             char data[57] = {};
             rdma_conn_param parameters{};
             parameters.private_data = data;
             parameters.private_data_len = sizeof data;
             return rdma_connect(side.resolved("127.0.0.1", 1), &parameters);
         }},
        {"connect, 255 bytes of private data", EINVAL,
         [](Side& side, rdma_cm_id*) {
             char data[255] = {};
             rdma_conn_param parameters{};
             parameters.private_data = data;
             parameters.private_data_len = sizeof data;
             return rdma_connect(side.resolved("127.0.0.1", 1), &parameters);
         }},
        {"connect, responder_resources above the device's", EINVAL,
         [](Side& side, rdma_cm_id*) {
             rdma_conn_param parameters{};
             parameters.responder_resources = 0xfe;
             return rdma_connect(side.resolved("127.0.0.1", 1), &parameters);
         }},
        {"connect, initiator_depth above the device's", EINVAL,
         [](Side& side, rdma_cm_id*) {
             rdma_conn_param parameters{};
             parameters.initiator_depth = 0xfe;
             return rdma_connect(side.resolved("127.0.0.1", 1), &parameters);
         }},
        {"accept, idle", EINVAL, [](Side&, rdma_cm_id* id) { return rdma_accept(id, nullptr); }},
        {"accept without queue pair and parameters", EINVAL,
         [](Side& side, rdma_cm_id*) {
             std::uint16_t port = 0;
             side.listener("127.0.0.1", port);
             auto parameters = parameters_for(unused_qp_number());
             rdma_connect(side.resolved("127.0.0.1", port), &parameters);
             return rdma_accept(side.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id, nullptr);
         }},
        {"reject, idle", EINVAL, [](Side&, rdma_cm_id* id) { return rdma_reject(id, nullptr, 0); }},
        {"reject, 225 bytes of private data", EINVAL,
         [](Side&, rdma_cm_id* id) {
             char data[225] = {};
             return rdma_reject(id, data, sizeof data);
         }},
        {"reject_ece, idle", EINVAL, [](Side&, rdma_cm_id* id) { return rdma_reject_ece(id, nullptr, 0); }},
        {"disconnect, idle", EINVAL, [](Side&, rdma_cm_id* id) { return rdma_disconnect(id); }},
        {"disconnect, route resolved", EINVAL,
         [](Side& side, rdma_cm_id*) { return rdma_disconnect(side.resolved("127.0.0.1", 1)); }},
        {"disconnect, listening", EINVAL,
         [](Side&, rdma_cm_id* id) {
             rdma_listen(id, 0);
             return rdma_disconnect(id);
         }},
        {"establish, idle", EINVAL, [](Side&, rdma_cm_id* id) { return rdma_establish(id); }},
        {"notify, idle", EINVAL, [](Side&, rdma_cm_id* id) { return rdma_notify(id, IBV_EVENT_COMM_EST); }},
        {"init_qp_attr, no device", EINVAL,
         [](Side&, rdma_cm_id* id) {
             ibv_qp_attr attributes{};
             int mask;
             attributes.qp_state = IBV_QPS_INIT;
             return rdma_init_qp_attr(id, &attributes, &mask);
         }},
        {"init_qp_attr(NULL)", EINVAL,
         [](Side&, rdma_cm_id* id) { return rdma_init_qp_attr(id, nullptr, nullptr); }},
        {"create_qp, no device", EINVAL,
         [](Side&, rdma_cm_id* id) {
             auto attributes = qp_attributes();
             return rdma_create_qp(id, nullptr, &attributes);
         }},
        {"create_qp(NULL)", EINVAL,
         [](Side& side, rdma_cm_id*) {
             return rdma_create_qp(side.resolved("127.0.0.1", 1), nullptr, nullptr);
         }},
        {"create_qp twice", EINVAL,
         [](Side& side, rdma_cm_id*) {
             rdma_cm_id* id = side.resolved("127.0.0.1", 1);
             create_qp(id);
             auto attributes = qp_attributes();
             return rdma_create_qp(id, nullptr, &attributes);
         }},
        {"create_qp_ex, no device", EINVAL,
         [](Side&, rdma_cm_id* id) {
             ibv_qp_init_attr_ex attributes{};
             return rdma_create_qp_ex(id, &attributes);
         }},
        {"establish, with a queue pair", EINVAL,
         [](Side& side, rdma_cm_id*) {
             rdma_cm_id* id = side.resolved("127.0.0.1", 1);
             create_qp(id);
             return rdma_establish(id);
         }},
        {"create_srq, no device", EINVAL,
         [](Side&, rdma_cm_id* id) {
             ibv_srq_init_attr attributes{};
             return rdma_create_srq(id, nullptr, &attributes);
         }},
        {"create_srq_ex(NULL)", EINVAL,
         [](Side&, rdma_cm_id* id) { return rdma_create_srq_ex(id, nullptr); }},
        {"set_local_ece, no vendor", EINVAL,
         [](Side&, rdma_cm_id* id) {
             ibv_ece none{};
             return rdma_set_local_ece(id, &none);
         }},
        {"set_local_ece, unknown bits", EINVAL,
         [](Side&, rdma_cm_id* id) {
             ibv_ece later{1, 0, 1};
             return rdma_set_local_ece(id, &later);
         }},
        {"set_local_ece, with a queue pair", EINVAL,
         [](Side& side, rdma_cm_id*) {
             rdma_cm_id* id = side.resolved("127.0.0.1", 1);
             create_qp(id);
             ibv_ece ece{1, 0, 0};
             return rdma_set_local_ece(id, &ece);
         }},
        {"get_remote_ece(NULL)", EINVAL,
         [](Side&, rdma_cm_id* id) { return rdma_get_remote_ece(id, nullptr); }},
        {"get_cm_event, no channel", EINVAL,
         [](Side&, rdma_cm_id*) {
             rdma_cm_event* event;
             return rdma_get_cm_event(nullptr, &event);
         }},
        {"get_cm_event, no place for the event", EINVAL,
         [](Side& side, rdma_cm_id*) { return rdma_get_cm_event(side.channel, nullptr); }},
        {"ack_cm_event(NULL)", EINVAL, [](Side&, rdma_cm_id*) { return rdma_ack_cm_event(nullptr); }},
        {"get_request of an asynchronous listener", EINVAL,
         [](Side&, rdma_cm_id* id) {
             rdma_cm_id* child;
             rdma_listen(id, 0);
             return rdma_get_request(id, &child);
         }},
        {"migrate_id, not a channel", EINVAL,
         [](Side&, rdma_cm_id* id) {
             rdma_event_channel stranger{0};
             return rdma_migrate_id(id, &stranger);
         }},
        {"join_multicast, idle", EINVAL,
         [](Side& side, rdma_cm_id*) {
             return rdma_join_multicast(side.id(RDMA_PS_UDP), Address("239.1.2.3", 0).get(), nullptr);
         }},
        {"join_multicast_ex, unknown bit", EOPNOTSUPP,
         [](Side&, rdma_cm_id* id) {
             rdma_cm_join_mc_attr_ex attributes{};
             attributes.comp_mask = RDMA_CM_JOIN_MC_ATTR_RESERVED;
             return rdma_join_multicast_ex(id, &attributes, nullptr);
         }},
        {"join_multicast_ex, no address", EINVAL,
         [](Side&, rdma_cm_id* id) {
             rdma_cm_join_mc_attr_ex attributes{};
             attributes.comp_mask = RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
             return rdma_join_multicast_ex(id, &attributes, nullptr);
         }},
        {"join_multicast_ex, unknown flag", EINVAL,
         [](Side&, rdma_cm_id* id) {
             Address group("239.1.2.3", 0);
             rdma_cm_join_mc_attr_ex attributes{};
             attributes.comp_mask = RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS | RDMA_CM_JOIN_MC_ATTR_ADDRESS;
             attributes.join_flags = RDMA_MC_JOIN_FLAG_RESERVED;
             attributes.addr = group.get();
             return rdma_join_multicast_ex(id, &attributes, nullptr);
         }},
        {"leave_multicast of a group never joined", EADDRNOTAVAIL,
         [](Side& side, rdma_cm_id*) {
             return rdma_leave_multicast(side.id(RDMA_PS_UDP), Address("239.1.2.3", 0).get());
         }},
        {"create_ep(NULL)", EINVAL,
         [](Side&, rdma_cm_id* id) { return rdma_create_ep(&id, nullptr, nullptr, nullptr); }},
        {"getaddrinfo of nothing", EINVAL,
         [](Side&, rdma_cm_id*) {
             rdma_addrinfo* found;
             return rdma_getaddrinfo(nullptr, nullptr, nullptr, &found);
         }},
        {"write_cm_event of another type", EINVAL,
         [](Side&, rdma_cm_id* id) { return rdma_write_cm_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, 0); }},
        {"write_cm_event of the library's own type", EINVAL,
         [](Side&, rdma_cm_id* id) {
             return rdma_write_cm_event(id, static_cast<rdma_cm_event_type>(19), 0, 0);
         }},
        {"resolve_addrinfo of nothing", EINVAL,
         [](Side&, rdma_cm_id* id) { return rdma_resolve_addrinfo(id, nullptr, nullptr, nullptr); }},
        {"resolve_addrinfo of no address", EINVAL,
         [](Side&, rdma_cm_id* id) {
             rdma_addrinfo hints{};
             hints.ai_flags = RAI_NUMERICHOST;
             return rdma_resolve_addrinfo(id, "no address", "1", &hints);
         }},
        {"resolve_addrinfo of a subnet administrator", EOPNOTSUPP,
         [](Side&, rdma_cm_id* id) {
             rdma_addrinfo hints{};
             hints.ai_flags = 0x10;  // RAI_SA
             return rdma_resolve_addrinfo(id, nullptr, "1", &hints);
         }},
        {"query_addrinfo before anything was resolved", ENOENT,
         [](Side&, rdma_cm_id* id) {
             rdma_addrinfo* found;
             return rdma_query_addrinfo(id, &found);
         }},
    };
    return table;
}

class Refusal : public testing::TestWithParam<std::size_t> {};

TEST_P(Refusal, IsMinusOneAndErrno) {
    const Mistake& row = mistakes()[GetParam()];
    SCOPED_TRACE(row.what);
    Side side;
    rdma_cm_id* id = side.id();
    errno = 0;
    EXPECT_EQ(outcome(row.call(side, id)), row.error)
        << row.what << ": " << std::strerror(row.error) << " wanted";
}

INSTANTIATE_TEST_SUITE_P(Table, Refusal, testing::Range<std::size_t>(0, mistakes().size()),
                         [](const auto& row) {
                             std::string name;
                             for (const char* c = mistakes()[row.param].what; *c; c++)
                                 name += std::isalnum(static_cast<unsigned char>(*c)) ? *c : '_';
                             return name;
                         });

// Every call that takes an id, given none, or a structure that is no id of this process.
TEST(NoId, IsRefusedByEveryCall) {
    const std::pair<const char*, std::function<int(rdma_cm_id*)>> calls[] = {
        {"accept", [](rdma_cm_id* id) { return rdma_accept(id, nullptr); }},
        {"bind_addr", [](rdma_cm_id* id) { return rdma_bind_addr(id, Address("127.0.0.1", 0).get()); }},
        {"connect", [](rdma_cm_id* id) { return rdma_connect(id, nullptr); }},
        {"create_qp",
         [](rdma_cm_id* id) {
             auto attributes = qp_attributes();
             return rdma_create_qp(id, nullptr, &attributes);
         }},
        {"create_qp_ex",
         [](rdma_cm_id* id) {
             ibv_qp_init_attr_ex attributes{};
             return rdma_create_qp_ex(id, &attributes);
         }},
        {"create_srq",
         [](rdma_cm_id* id) {
             ibv_srq_init_attr attributes{};
             return rdma_create_srq(id, nullptr, &attributes);
         }},
        {"create_srq_ex",
         [](rdma_cm_id* id) {
             ibv_srq_init_attr_ex attributes{};
             return rdma_create_srq_ex(id, &attributes);
         }},
        {"destroy_id", [](rdma_cm_id* id) { return rdma_destroy_id(id); }},
        {"disconnect", [](rdma_cm_id* id) { return rdma_disconnect(id); }},
        {"establish", [](rdma_cm_id* id) { return rdma_establish(id); }},
        {"get_remote_ece",
         [](rdma_cm_id* id) {
             ibv_ece ece{};
             return rdma_get_remote_ece(id, &ece);
         }},
        {"get_request",
         [](rdma_cm_id* id) {
             rdma_cm_id* child;
             return rdma_get_request(id, &child);
         }},
        {"init_qp_attr",
         [](rdma_cm_id* id) {
             ibv_qp_attr attributes{};
             int mask = 0;
             return rdma_init_qp_attr(id, &attributes, &mask);
         }},
        {"join_multicast",
         [](rdma_cm_id* id) { return rdma_join_multicast(id, Address("239.1.2.3", 0).get(), nullptr); }},
        {"join_multicast_ex",
         [](rdma_cm_id* id) {
             rdma_cm_join_mc_attr_ex attributes{};
             return rdma_join_multicast_ex(id, &attributes, nullptr);
         }},
        {"leave_multicast",
         [](rdma_cm_id* id) { return rdma_leave_multicast(id, Address("239.1.2.3", 0).get()); }},
        {"listen", [](rdma_cm_id* id) { return rdma_listen(id, 0); }},
        {"migrate_id", [](rdma_cm_id* id) { return rdma_migrate_id(id, nullptr); }},
        {"notify", [](rdma_cm_id* id) { return rdma_notify(id, IBV_EVENT_COMM_EST); }},
        {"query_addrinfo",
         [](rdma_cm_id* id) {
             rdma_addrinfo* found;
             return rdma_query_addrinfo(id, &found);
         }},
        {"reject", [](rdma_cm_id* id) { return rdma_reject(id, nullptr, 0); }},
        {"reject_ece", [](rdma_cm_id* id) { return rdma_reject_ece(id, nullptr, 0); }},
        {"resolve_addr",
         [](rdma_cm_id* id) {
             return rdma_resolve_addr(id, nullptr, Address("127.0.0.1", 1).get(), kResolveMs);
         }},
        {"resolve_addrinfo", [](rdma_cm_id* id) { return rdma_resolve_addrinfo(id, "::1", "1", nullptr); }},
        {"resolve_route", [](rdma_cm_id* id) { return rdma_resolve_route(id, kResolveMs); }},
        {"set_local_ece",
         [](rdma_cm_id* id) {
             ibv_ece ece{1, 0, 0};
             return rdma_set_local_ece(id, &ece);
         }},
        {"set_option",
         [](rdma_cm_id* id) {
             int on = 1;
             return rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on);
         }},
        {"write_cm_event",
         [](rdma_cm_id* id) { return rdma_write_cm_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, 0); }},
    };
    rdma_cm_id stranger{};
    for (rdma_cm_id* id : {static_cast<rdma_cm_id*>(nullptr), &stranger})
        for (const auto& [name, call] : calls) {
            errno = 0;
            EXPECT_EQ(outcome(call(id)), EINVAL) << "rdma_" << name << (id ? ", a stranger" : ", NULL");
        }
}

// Those that return nothing, or a number that is no error.
TEST(NoId, IsNothingToTheRest) {
    rdma_cm_id stranger{};
    for (rdma_cm_id* id : {static_cast<rdma_cm_id*>(nullptr), &stranger}) {
        rdma_destroy_qp(id);
        rdma_destroy_srq(id);
        rdma_destroy_ep(id);
        EXPECT_EQ(rdma_get_src_port(id), 0);
        EXPECT_EQ(rdma_get_dst_port(id), 0);
    }
    rdma_destroy_event_channel(nullptr);
    rdma_free_devices(nullptr);
    rdma_freeaddrinfo(nullptr);
}

TEST(Strings, EveryEventHasItsName) {
    EXPECT_STREQ(rdma_event_str(RDMA_CM_EVENT_ADDR_RESOLVED), "RDMA_CM_EVENT_ADDR_RESOLVED");
    EXPECT_STREQ(rdma_event_str(RDMA_CM_EVENT_TIMEWAIT_EXIT), "RDMA_CM_EVENT_TIMEWAIT_EXIT");
    EXPECT_STREQ(rdma_event_str(RDMA_CM_EVENT_REJECTED), "RDMA_CM_EVENT_REJECTED");
    EXPECT_STREQ(rdma_event_str(RDMA_CM_EVENT_ADDR_CHANGE), "RDMA_CM_EVENT_ADDR_CHANGE");
    EXPECT_STREQ(rdma_event_str(static_cast<rdma_cm_event_type>(9999)), "UNKNOWN EVENT");
}

}  // namespace
}  // namespace verbena::rdmacm_test
