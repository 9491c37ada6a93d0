// The connection manager's part.
#include <arpa/inet.h>

#include <array>
#include <string_view>
#include <thread>

#include "../rdmacm/fabric.h"
#include "mistake.h"
#include "verbena.h"

namespace verbena::mistakes {
namespace {

using rdmacm_test::Address;
using CmSide = rdmacm_test::Side;
using CmPair = rdmacm_test::Pair;

// The next event of the side, which is of that kind: what is said of it.
std::string event_reason(CmSide& side, rdma_cm_event_type type, int status) {
    rdma_cm_event* event = nullptr;
    EXPECT_TRUE(rdmacm_test::wait_readable(side.channel->fd, rdmacm_test::kPatienceMs));
    EXPECT_EQ(rdma_get_cm_event(side.channel, &event), 0);
    if (!event) return {};
    EXPECT_EQ(event->event, type) << rdma_event_str(event->event);
    EXPECT_EQ(event->status, status);
    const std::string text = verbena_cm_event_reason(event);
    rdma_ack_cm_event(event);
    return text;
}

// A server that listens on `where` in `offered`, and a client that asks 127.0.0.1 in `wanted`; `shift` is
// added to the port.
std::string nobody_listens(const char* where, rdma_port_space offered, rdma_port_space wanted, int shift) {
    CmSide server, client;
    std::uint16_t port = 0;
    if (where) server.listener(where, port, offered);
    if (!port) port = 7000;
    rdma_cm_id* id = client.resolved("127.0.0.1", static_cast<std::uint16_t>(port + shift), wanted);
    rdma_conn_param parameters = rdmacm_test::parameters_for(rdmacm_test::unused_qp_number());
    EXPECT_EQ(rdma_connect(id, &parameters), 0);
    return wanted == RDMA_PS_UDP ? event_reason(client, RDMA_CM_EVENT_UNREACHABLE, 1)
                                 : event_reason(client, RDMA_CM_EVENT_REJECTED, 8);
}

std::string refused_by_program() {
    CmSide server, client;
    std::uint16_t port = 0;
    server.listener("127.0.0.1", port);
    rdma_cm_id* id = client.resolved("127.0.0.1", port);
    rdma_conn_param parameters = rdmacm_test::parameters_for(rdmacm_test::unused_qp_number());
    EXPECT_EQ(rdma_connect(id, &parameters), 0);
    rdmacm_test::Event request = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    server.adopt(request.id);
    EXPECT_EQ(rdma_reject(request.id, nullptr, 0), 0);
    return event_reason(client, RDMA_CM_EVENT_REJECTED, 28);
}

// 57 bytes in a request, 197 in the answer.
std::string too_much_private_data(bool answer) {
    static std::array<std::uint8_t, 256> data{};
    CmSide server, client;
    std::uint16_t port = 0;
    server.listener("127.0.0.1", port);
    rdma_cm_id* id = client.resolved("127.0.0.1", port);
    rdma_conn_param parameters = rdmacm_test::parameters_for(rdmacm_test::unused_qp_number());
    parameters.private_data = data.data();
    parameters.private_data_len = 57;
    if (!answer) {
        expect_errno(EINVAL, rdma_connect(id, &parameters));
        return {};
    }
    parameters.private_data_len = 56;
    EXPECT_EQ(rdma_connect(id, &parameters), 0);
    rdmacm_test::Event request = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    server.adopt(request.id);
    parameters.private_data_len = 197;
    expect_errno(EINVAL, rdma_accept(request.id, &parameters));
    return {};
}

std::string port_taken() {
    CmSide side;
    std::uint16_t port = 0;
    side.listener("127.0.0.1", port);
    Address address("127.0.0.1", port);
    expect_errno(EADDRNOTAVAIL, rdma_bind_addr(side.id(), address.get()));  // as Linux, for loopback
    return {};
}

std::string foreign_address() {
    CmSide side;
    Address address("192.0.2.77", 0);
    expect_errno(EADDRNOTAVAIL, rdma_bind_addr(side.id(), address.get()));
    return {};
}

// From loopback the kernel's answer is EINVAL, or ENETUNREACH where there is no route at all. From anywhere
// it may have a way, but the tests' fabric is one of their own, which has none.
std::string elsewhere(const char* own_address) {
    CmSide side;
    Address source(own_address, 0), destination("198.51.100.1", 7000);
    const bool any = std::string_view(own_address) == "0.0.0.0";
    const int result = rdma_resolve_addr(side.id(), any ? nullptr : source.get(), destination.get(),
                                         rdmacm_test::kResolveMs);
    expect_errno(errno == EINVAL && !any ? EINVAL : ENETUNREACH, result);
    return {};
}

std::string connect_without_route() {
    CmSide side;
    rdma_conn_param parameters = rdmacm_test::parameters_for(rdmacm_test::unused_qp_number());
    expect_errno(EINVAL, rdma_connect(side.id(), &parameters));
    return {};
}

std::string route_without_address() {
    CmSide side;
    expect_errno(EINVAL, rdma_resolve_route(side.id(), 1000));
    return {};
}

std::string accept_on_listener() {
    CmSide side;
    std::uint16_t port = 0;
    rdma_conn_param parameters = rdmacm_test::parameters_for(rdmacm_test::unused_qp_number());
    expect_errno(EINVAL, rdma_accept(side.listener("127.0.0.1", port), &parameters));
    return {};
}

std::string disconnect_without_connection() {
    CmSide side;
    expect_errno(EINVAL, rdma_disconnect(side.id()));
    return {};
}

std::string qp_without_device() {
    CmSide side;
    ibv_qp_init_attr attributes{};
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = {4, 4, 1, 1, 0};
    expect_errno(EINVAL, rdma_create_qp(side.id(), nullptr, &attributes));
    return {};
}

std::string destroyed_id() {
    CmSide side;
    rdma_cm_id* id;
    EXPECT_EQ(rdma_create_id(side.channel, &id, nullptr, RDMA_PS_TCP), 0);
    EXPECT_EQ(rdma_destroy_id(id), 0);
    expect_errno(EINVAL, rdma_disconnect(id));
    return {};
}

// The wait is said after a second; then somebody acknowledges.
std::string unacknowledged_event() {
    CmSide side;
    rdma_cm_id* id;
    EXPECT_EQ(rdma_create_id(side.channel, &id, nullptr, RDMA_PS_TCP), 0);
    Address address("127.0.0.1", 7000);
    EXPECT_EQ(rdma_resolve_addr(id, nullptr, address.get(), rdmacm_test::kResolveMs), 0);
    rdma_cm_event* event;
    EXPECT_EQ(rdma_get_cm_event(side.channel, &event), 0);
    std::thread destroyer([id] { EXPECT_EQ(rdma_destroy_id(id), 0); });
    std::string log;
    EXPECT_TRUE(wait_until([&] { return !(log += new_log()).empty(); }));
    rdma_ack_cm_event(event);
    destroyer.join();
    return log;
}

std::string unacknowledged_completion_event() {
    Options options;
    options.with_channel = true;
    auto pair = std::make_unique<verbs_test::Pair>(options);
    Memory memory(pair->a.pd, 64), remote(pair->b.pd, 64);
    EXPECT_EQ(ibv_req_notify_cq(pair->a.send_cq, 0), 0);
    ibv_sge sge = memory.sge(0, 8);
    EXPECT_EQ(Request(7, IBV_WR_RDMA_WRITE, &sge, 1).to(remote).post(pair->a.qp), 0);
    ibv_cq* cq;
    void* context;
    EXPECT_EQ(ibv_get_cq_event(pair->a.channel, &cq, &context), 0);
    EXPECT_EQ(ibv_destroy_qp(pair->a.qp), 0);
    pair->a.qp = nullptr;
    std::thread destroyer([cq] { EXPECT_EQ(ibv_destroy_cq(cq), 0); });
    std::string log;
    EXPECT_TRUE(wait_until([&] { return !(log += new_log()).empty(); }));
    ibv_ack_cq_events(cq, 1);
    destroyer.join();
    pair->a.send_cq = ibv_create_cq(pair->a.context, 4, nullptr, nullptr, 0);  // for Side's end
    return log;
}

// The program moves its queue pair itself, between request and reply: librdmacm cannot connect it.
std::string queue_pair_not_ready() {
    CmSide server, client;
    std::uint16_t port = 0;
    server.listener("127.0.0.1", port);
    rdma_cm_id* id = client.resolved("127.0.0.1", port);
    rdmacm_test::create_qp(id);
    rdma_conn_param parameters = rdmacm_test::parameters_for(0);
    EXPECT_EQ(rdma_connect(id, &parameters), 0);
    rdmacm_test::Event request = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    server.adopt(request.id);
    rdmacm_test::create_qp(request.id);
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_ERR;
    EXPECT_EQ(ibv_modify_qp(id->qp, &to, IBV_QP_STATE), 0);
    EXPECT_EQ(rdma_accept(request.id, &parameters), 0);
    return event_reason(client, RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL);
}

// What is outstanding when the peer disconnects.
std::string flushed_by_disconnect() {
    CmPair pair;
    std::array<char, 64> buffer{};
    const int access = IBV_ACCESS_LOCAL_WRITE;
    ibv_mr* mr = ibv_reg_mr(pair.active->qp->pd, buffer.data(), buffer.size(), access);
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(buffer.data()), 64, mr->lkey};
    ibv_recv_wr request{}, *bad;
    request.sg_list = &sge;
    request.num_sge = 1;
    EXPECT_EQ(ibv_post_recv(pair.active->qp, &request, &bad), 0);
    EXPECT_EQ(rdma_disconnect(pair.active), 0);
    const ibv_wc wc = completion(pair.active->qp->recv_cq);
    EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
    const std::string text = verbena_wc_reason(&wc);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    return text;
}

}  // namespace

const std::vector<Mistake>& connection_mistakes() {
    static const std::vector<Mistake> table = {
        {"nobody_listens", From::other, [] { return nobody_listens(nullptr, RDMA_PS_TCP, RDMA_PS_TCP, 0); },
         "127.0.0.1:7000 rejected with reason 8: nothing listens there on that port in this port space; this "
         "host has no "
         "listener",
         "https://github.com/Eyescale/Equalizer/issues/84",
         "RDMA_CM_EVENT_REJECTED( _not_ expected ) was all that the log had; why, and what does listen, is "
         "said."},
        {"wrong_port", From::other, [] { return nobody_listens("127.0.0.1", RDMA_PS_TCP, RDMA_PS_TCP, 1); },
         "nothing listens there .*; this host listens on 127.0.0.1:[0-9]+"},
        {"wrong_address", From::other, [] { return nobody_listens("::1", RDMA_PS_TCP, RDMA_PS_TCP, 0); },
         "nothing listens there .*; on that port: \\[::1\\]:[0-9]+"},
        {"wrong_port_space", From::other,
         [] { return nobody_listens("127.0.0.1", RDMA_PS_UDP, RDMA_PS_TCP, 0); },
         "nothing listens there .*; on that port: 127.0.0.1:[0-9]+ in RDMA_PS_UDP"},
        {"no_datagram_service", From::other,
         [] { return nobody_listens(nullptr, RDMA_PS_UDP, RDMA_PS_UDP, 0); },
         "127.0.0.1:7000 answered with SIDR status 1: nothing listens there"},
        {"refused_by_program", From::other, refused_by_program,
         "rejected with reason 28: the peer's program refused \\(rdma_reject\\)",
         "https://github.com/ofiwg/libfabric/issues/10359",
         "Connection refused (111), prov_err: Unknown error -28: 28 is no errno, and the sentence says what "
         "it is."},
        {"private_data_of_request_too_long", From::call, [] { return too_much_private_data(false); },
         "57 bytes of private data; a REQ of an IP port space carries 56"},
        {"private_data_of_answer_too_long", From::call, [] { return too_much_private_data(true); },
         "197 bytes of private data; a REP carries 196"},
        {"port_taken", From::call, port_taken,
         "127.0.0.1:[0-9]+: id [0-9]+ holds 127.0.0.1:[0-9]+, and one of the two is a wildcard",
         "https://github.com/spdk/spdk/issues/2604",
         "Error 98 of rdma_resolve_addr with a source address; who has the port is said."},
        {"address_of_another_host", From::call, foreign_address,
         "192.0.2.77.* is not an address of this host"},
        {"loopback_to_elsewhere", From::call, [] { return elsewhere("127.0.0.1"); },
         "no way from 127.0.0.1:[0-9]+ to 198.51.100.1:7000: "},
        {"another_host_from_a_fabric_of_its_own", From::call, [] { return elsewhere("0.0.0.0"); },
         "no way from 0.0.0.0:[0-9]+ to 198.51.100.1:7000: 198.51.100.1: fabric \".*\" is separate: its "
         "programs reach each "
         "other in "
         "this network namespace, nobody else"},
        {"connect_without_route", From::call, connect_without_route, "id [0-9]+ is idle"},
        {"route_without_address", From::call, route_without_address, "id [0-9]+ is idle"},
        {"accept_on_listener", From::call, accept_on_listener, "id [0-9]+"},
        {"disconnect_without_connection", From::call, disconnect_without_connection,
         "id [0-9]+ is idle and has no connection to end"},
        {"qp_without_device", From::call, qp_without_device,
         "the id has no device yet; bind it to an address or resolve one first"},
        {"destroyed_id", From::call, destroyed_id,
         "rdma_cm_id 0x[0-9a-f]+ is none of this process: not created, destroyed, or inherited by fork"},
        {"unacknowledged_event", From::log, unacknowledged_event,
         "rdma_destroy_id.*waits for 1 event\\(s\\) that rdma_get_cm_event returned and nobody acknowledged",
         "https://github.com/cocalele/PureFlash/issues/52",
         "rdma_destroy_id hung in pthread_cond_wait, found with a debugger; after a second the log says what "
         "it waits for."},
        {"unacknowledged_completion_event", From::log, unacknowledged_completion_event,
         "ibv_destroy_cq.*waits for 1 event\\(s\\) that ibv_get_cq_event or ibv_get_async_event returned",
         "https://github.com/openucx/ucx/issues/1039",
         "A hang at the end that a maintainer recognized in the stack: events were acknowledged on another "
         "queue."},
        {"queue_pair_not_ready", From::other, queue_pair_not_ready,
         "connecting to 127.0.0.1:[0-9]+ failed here: ERR->"},
        {"flushed_by_disconnect", From::alone, flushed_by_disconnect,
         "^flushed: the queue pair is in the error state: rdma_disconnect moved it to the error state$"},
    };
    return table;
}

}  // namespace verbena::mistakes
