// Addresses and ports: who may bind what beside whom, what a listener takes, and what an id shows of it.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/ipv6_testing.h"
#include "fabric.h"

namespace verbena::rdmacm_test {
namespace {

int bind(rdma_cm_id* id, const char* host, std::uint16_t port) {
    return outcome(rdma_bind_addr(id, Address(host, port).get()));
}

TEST(Ports, ZeroChoosesOne) {
    Side side;
    rdma_cm_id *a = side.id(), *b = side.id();
    ASSERT_EQ(bind(a, "0.0.0.0", 0), 0);
    ASSERT_EQ(bind(b, "0.0.0.0", 0), 0);
    EXPECT_NE(source_port(a), 0);
    EXPECT_NE(source_port(a), source_port(b));
}

TEST(Ports, ListenOnAnIdleIdBindsTheWildcard) {
    Side side;
    rdma_cm_id* id = side.id();
    ASSERT_EQ(outcome(rdma_listen(id, 0)), 0);
    EXPECT_NE(source_port(id), 0);
    EXPECT_EQ(id->verbs, nullptr);
}

TEST(Ports, SameConcreteAddressIsInUse) {
    std::string own = outside_address();
    if (own.empty()) GTEST_SKIP() << "no address but loopback";
    Side side;
    rdma_cm_id *a = side.id(), *b = side.id(), *c = side.id();
    ASSERT_EQ(bind(a, own.c_str(), 0), 0);
    EXPECT_TRUE(a->verbs);
    EXPECT_TRUE(a->pd);
    EXPECT_EQ(a->port_num, 1);
    EXPECT_EQ(bind(b, own.c_str(), source_port(a)), EADDRINUSE);
    EXPECT_EQ(bind(c, "0.0.0.0", source_port(a)), EADDRNOTAVAIL);
}

// The kernel counts loopback addresses among those that stand for any device.
TEST(Ports, SameLoopbackAddressIsNotAvailable) {
    Side side;
    rdma_cm_id *a = side.id(), *b = side.id();
    ASSERT_EQ(bind(a, "127.0.0.1", 0), 0);
    EXPECT_EQ(bind(b, "127.0.0.1", source_port(a)), EADDRNOTAVAIL);
}

TEST(Ports, WildcardAgainstAnythingIsNotAvailable) {
    Side side;
    rdma_cm_id *a = side.id(), *b = side.id(), *c = side.id();
    ASSERT_EQ(bind(a, "0.0.0.0", 0), 0);
    EXPECT_EQ(bind(b, "127.0.0.1", source_port(a)), EADDRNOTAVAIL);
    EXPECT_EQ(bind(c, "0.0.0.0", source_port(a)), EADDRNOTAVAIL);
}

TEST(Ports, AFailedBindMayBeTriedAgain) {
    Side side;
    rdma_cm_id *a = side.id(), *b = side.id();
    ASSERT_EQ(bind(a, "127.0.0.1", 0), 0);
    ASSERT_EQ(bind(b, "127.0.0.1", source_port(a)), EADDRNOTAVAIL);
    EXPECT_EQ(bind(b, "127.0.0.1", 0), 0);
}

TEST(Ports, SpacesAreSeparate) {
    Side side;
    rdma_cm_id *tcp = side.id(), *udp = side.id(RDMA_PS_UDP), *ipoib = side.id(RDMA_PS_IPOIB);
    ASSERT_EQ(bind(tcp, "127.0.0.1", 0), 0);
    EXPECT_EQ(bind(udp, "127.0.0.1", source_port(tcp)), 0);
    EXPECT_EQ(bind(ipoib, "127.0.0.1", source_port(tcp)), 0);
}

TEST(Ports, AreNotTheKernels) {
    int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_GE(socket, 0);
    Address any("127.0.0.1", 0);
    ASSERT_EQ(::bind(socket, any.get(), sizeof(sockaddr_in)), 0);
    socklen_t length = sizeof any.storage;
    ASSERT_EQ(getsockname(socket, any.get(), &length), 0);
    Side side;
    EXPECT_EQ(outcome(rdma_bind_addr(side.id(), any.get())), 0);
    close(socket);
}

TEST(Ports, ReuseIsSharedByIdsThatDoNotListen) {
    Side side;
    rdma_cm_id *a = side.id(), *b = side.id();
    int on = 1;
    for (rdma_cm_id* id : {a, b})
        ASSERT_EQ(outcome(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on)), 0);
    ASSERT_EQ(bind(a, "127.0.0.1", 0), 0);
    EXPECT_EQ(bind(b, "127.0.0.1", source_port(a)), 0);
    EXPECT_EQ(outcome(rdma_listen(a, 0)), EADDRNOTAVAIL);
}

TEST(Ports, DestroyedIdFreesItsPort) {
    Side side;
    rdma_cm_id* a = side.id();
    ASSERT_EQ(bind(a, "127.0.0.1", 0), 0);
    std::uint16_t port = source_port(a);
    ASSERT_EQ(outcome(side.destroy(a)), 0);
    EXPECT_EQ(bind(side.id(), "127.0.0.1", port), 0);
}

TEST(Ports, DestroyedChannelFreesThePortsOfItsIds) {
    std::uint16_t port = 0;
    {
        Side gone;
        gone.listener("127.0.0.1", port);
        rdma_destroy_event_channel(gone.channel);
        gone.channel = nullptr;
        Side side;
        EXPECT_EQ(bind(side.id(), "127.0.0.1", port), 0);
    }
}

struct Meeting {
    const char *listen_on, *connect_to;
    bool meets;
};

TEST(Ports, WhoReachesWhichListener) {
    const Meeting table[] = {
        {"0.0.0.0", "127.0.0.1", true},
        {"127.0.0.1", "127.0.0.1", true},
        {"::", "::1", true},
        {"::", "127.0.0.1", true},
        {"::1", "::1", true},
        {"0.0.0.0", "::1", false},
        {"127.0.0.1", "::1", false},
        {"::1", "127.0.0.1", false},
    };
    const bool ipv6 = has_ipv6();
    for (const Meeting& row : table) {
        if (!ipv6 && std::string(row.connect_to) == "::1") continue;
        SCOPED_TRACE(std::string(row.listen_on) + " <- " + row.connect_to);
        Side server, client;
        std::uint16_t port = 0;
        server.listener(row.listen_on, port);
        rdma_cm_id* id = client.resolved(row.connect_to, port);
        rdma_conn_param parameters = parameters_for(unused_qp_number());
        ASSERT_EQ(outcome(rdma_connect(id, &parameters)), 0);
        if (row.meets)
            server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
        else
            client.expect(RDMA_CM_EVENT_REJECTED, 8);
    }
}

TEST(Ports, FamilyOnlyListenerRefusesIpv4) {
    Side server, client;
    rdma_cm_id* listener = server.id();
    int on = 1;
    ASSERT_EQ(outcome(rdma_set_option(listener, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof on)), 0);
    ASSERT_EQ(bind(listener, "::", 0), 0);
    ASSERT_EQ(outcome(rdma_listen(listener, 0)), 0);
    rdma_cm_id* id = client.resolved("127.0.0.1", source_port(listener));
    rdma_conn_param parameters = parameters_for(unused_qp_number());
    ASSERT_EQ(outcome(rdma_connect(id, &parameters)), 0);
    client.expect(RDMA_CM_EVENT_REJECTED, 8);
}

// The kernel says EINVAL, for a packet from loopback to elsewhere, or ENETUNREACH.
TEST(Ports, NoWayIsAnErrorWithoutAnEventAndMayBeTriedAgain) {
    Side side;
    rdma_cm_id* id = side.id();
    ASSERT_EQ(bind(id, "127.0.0.1", 0), 0);
    const int error = outcome(rdma_resolve_addr(id, nullptr, Address("192.0.2.1", 7).get(), 200));
    EXPECT_TRUE(error == EINVAL || error == ENETUNREACH) << error;
    EXPECT_TRUE(side.quiet());
    EXPECT_EQ(outcome(rdma_resolve_addr(id, nullptr, Address("127.0.0.1", 7).get(), kResolveMs)), 0);
    side.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
}

TEST(Ports, BacklogFullDropsSilently) {
    Side server, client;
    rdma_cm_id* listener = server.id();
    ASSERT_EQ(bind(listener, "127.0.0.1", 0), 0);
    ASSERT_EQ(outcome(rdma_listen(listener, 1)), 0);
    rdma_conn_param parameters = parameters_for(unused_qp_number());
    rdma_cm_id* first = client.resolved("127.0.0.1", source_port(listener));
    ASSERT_EQ(outcome(rdma_connect(first, &parameters)), 0);
    ASSERT_TRUE(wait_readable(server.channel->fd, kPatienceMs));
    rdma_cm_id* second = client.resolved("127.0.0.1", source_port(listener));
    parameters.qp_num = unused_qp_number();
    ASSERT_EQ(outcome(rdma_connect(second, &parameters)), 0);
    EXPECT_TRUE(client.quiet(100));  // neither rejected nor answered
    server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    server.expect(RDMA_CM_EVENT_CONNECT_REQUEST);  // there is a place for it now
}

}  // namespace
}  // namespace verbena::rdmacm_test
