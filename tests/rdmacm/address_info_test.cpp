// rdma_getaddrinfo: hints and flags, and what comes of them; addresses of InfiniBand (AF_IB).
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <infiniband/ib.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "fabric.h"

namespace verbena::rdmacm_test {
namespace {

using Found = std::unique_ptr<rdma_addrinfo, decltype(&rdma_freeaddrinfo)>;

Found look_up(const char* node, const char* service, const rdma_addrinfo* hints, int result = 0) {
    rdma_addrinfo* found = nullptr;
    EXPECT_EQ(rdma_getaddrinfo(node, service, hints, &found), result);
    return {found, rdma_freeaddrinfo};
}

rdma_addrinfo hints_of(int flags, int family = 0, int space = 0, int type = 0) {
    rdma_addrinfo hints{};
    hints.ai_flags = flags;
    hints.ai_family = family;
    hints.ai_port_space = space;
    hints.ai_qp_type = type;
    return hints;
}

std::uint16_t port_of(const sockaddr* address) {
    return ntohs(address->sa_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(address)->sin6_port
                                                : reinterpret_cast<const sockaddr_in*>(address)->sin_port);
}

struct Lookup {
    const char* what;
    const char *node, *service;
    int flags, family, space, type;
    int result;
    int found_family, found_space, found_type;
};

TEST(AddressInfo, HintsAndWhatComesOfThem) {
    constexpr int kStream = RDMA_PS_TCP, kDatagram = RDMA_PS_UDP;
    const Lookup table[] = {
        {"stream", "127.0.0.1", "4711", 0, 0, kStream, 0, 0, AF_INET, kStream, IBV_QPT_RC},
        {"datagrams", "127.0.0.1", "4711", 0, 0, kDatagram, 0, 0, AF_INET, kDatagram, IBV_QPT_UD},
        {"by the queue pair's type", "127.0.0.1", "4711", 0, 0, 0, IBV_QPT_UD, 0, AF_INET, kDatagram,
         IBV_QPT_UD},
        {"RC by type", "127.0.0.1", "4711", 0, 0, 0, IBV_QPT_RC, 0, AF_INET, kStream, IBV_QPT_RC},
        {"XRC", "127.0.0.1", "4711", 0, 0, kStream, IBV_QPT_XRC_SEND, 0, AF_INET, kStream, IBV_QPT_XRC_SEND},
        {"RDMA_PS_IB, UC", "127.0.0.1", "4711", 0, 0, RDMA_PS_IB, IBV_QPT_UC, 0, AF_INET, RDMA_PS_IB,
         IBV_QPT_UC},
        {"RDMA_PS_IB, UD", "127.0.0.1", "4711", 0, 0, RDMA_PS_IB, IBV_QPT_UD, 0, AF_INET, RDMA_PS_IB,
         IBV_QPT_UD},
        {"IPoIB", "127.0.0.1", "4711", 0, 0, RDMA_PS_IPOIB, 0, 0, AF_INET, RDMA_PS_IPOIB, IBV_QPT_UD},
        {"IPv6", "::1", "4711", 0, 0, kStream, 0, 0, AF_INET6, kStream, IBV_QPT_RC},
        {"numeric", "::1", "4711", RAI_NUMERICHOST, 0, kStream, 0, 0, AF_INET6, kStream, IBV_QPT_RC},
        {"no route", "127.0.0.1", "4711", RAI_NOROUTE, 0, kStream, 0, 0, AF_INET, kStream, IBV_QPT_RC},
        {"family", "127.0.0.1", "4711", RAI_FAMILY, AF_INET, kStream, 0, 0, AF_INET, kStream, IBV_QPT_RC},
        {"of another family", "127.0.0.1", "4711", RAI_FAMILY, AF_INET6, kStream, 0, EAI_ADDRFAMILY, 0, 0, 0},
        {"of no family", "127.0.0.1", "4711", RAI_FAMILY, 255, kStream, 0, EAI_FAMILY, 0, 0, 0},
        {"a name where a number has to be", "localhost", "4711", RAI_NUMERICHOST, 0, kStream, 0, EAI_NONAME,
         0, 0, 0},
        {"no such service", "127.0.0.1", "no such", 0, 0, kStream, 0, EAI_SERVICE, 0, 0, 0},
        {"no service", "127.0.0.1", nullptr, 0, 0, kStream, 0, 0, AF_INET, kStream, IBV_QPT_RC},
        {"InfiniBand, but not a number", "127.0.0.1", "4711", RAI_FAMILY, AF_IB, kStream, 0, 0, AF_INET,
         kStream, IBV_QPT_RC},
    };
    for (const Lookup& row : table) {
        SCOPED_TRACE(row.what);
        const rdma_addrinfo hints = hints_of(row.flags, row.family, row.space, row.type);
        const Found found = look_up(row.node, row.service, &hints, row.result);
        ASSERT_EQ(found != nullptr, row.result == 0);
        if (!found) continue;
        EXPECT_EQ(found->ai_family, row.found_family);
        EXPECT_EQ(found->ai_port_space, row.found_space);
        EXPECT_EQ(found->ai_qp_type, row.found_type);
        EXPECT_EQ(found->ai_flags & RAI_PASSIVE, 0);
        EXPECT_EQ(found->ai_src_len, 0u);
        EXPECT_EQ(found->ai_src_addr, nullptr);
        ASSERT_TRUE(found->ai_dst_addr);
        EXPECT_EQ(found->ai_dst_addr->sa_family, row.found_family);
        EXPECT_EQ(port_of(found->ai_dst_addr), row.service ? 4711 : 0);
        EXPECT_EQ(found->ai_route_len, 0u);
        EXPECT_EQ(found->ai_connect_len, 0u);
        EXPECT_EQ(found->ai_next, nullptr);
    }
}

TEST(AddressInfo, PassiveGivesTheSource) {
    for (const char* node : {static_cast<const char*>(nullptr), "127.0.0.1", "::1"}) {
        const rdma_addrinfo hints = hints_of(RAI_PASSIVE, 0, RDMA_PS_TCP);
        const Found found = look_up(node, "4711", &hints);
        ASSERT_TRUE(found);
        EXPECT_TRUE(found->ai_flags & RAI_PASSIVE);
        ASSERT_TRUE(found->ai_src_addr);
        EXPECT_EQ(port_of(found->ai_src_addr), 4711);
        EXPECT_EQ(found->ai_dst_len, 0u);
        EXPECT_EQ(found->ai_dst_addr, nullptr);
        EXPECT_EQ(found->ai_qp_type, IBV_QPT_RC);
    }
}

TEST(AddressInfo, WithoutHints) {
    const Found found = look_up("127.0.0.1", "4711", nullptr);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->ai_family, AF_INET);
    EXPECT_EQ(port_of(found->ai_dst_addr), 4711);
}

// Neither node nor service: the hints' addresses are the answer.
TEST(AddressInfo, OfHintsAlone) {
    Address to("127.0.0.1", 7), from("127.0.0.1", 8);
    rdma_addrinfo hints = hints_of(0, AF_INET, RDMA_PS_UDP, IBV_QPT_UD);
    hints.ai_dst_addr = to.get();
    hints.ai_dst_len = sizeof(sockaddr_in);
    hints.ai_src_addr = from.get();
    hints.ai_src_len = sizeof(sockaddr_in);
    const Found found = look_up(nullptr, nullptr, &hints);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->ai_family, AF_INET);
    EXPECT_EQ(found->ai_port_space, RDMA_PS_UDP);
    EXPECT_EQ(found->ai_qp_type, IBV_QPT_UD);
    ASSERT_EQ(found->ai_dst_len, sizeof(sockaddr_in));
    ASSERT_EQ(found->ai_src_len, sizeof(sockaddr_in));
    EXPECT_NE(found->ai_dst_addr, hints.ai_dst_addr) << "a copy";
    EXPECT_EQ(port_of(found->ai_dst_addr), 7);
    EXPECT_EQ(port_of(found->ai_src_addr), 8);
}

// RoCE has no subnet administrator that could be asked.
TEST(AddressInfo, NobodyToAskForRaiSa) {
    constexpr int kSa = 0x10, kDns = 0x20;  // newer than the headers
    for (const int flags : {kSa, kSa | kDns, kSa | int{RAI_PASSIVE}})
        for (const char* node : {static_cast<const char*>(nullptr), "127.0.0.1"}) {
            const rdma_addrinfo hints = hints_of(flags, 0, RDMA_PS_TCP);
            errno = 0;
            EXPECT_EQ(look_up(node, "4711", &hints, -1), nullptr);
            EXPECT_EQ(errno, EOPNOTSUPP);
        }
    const rdma_addrinfo hints = hints_of(kDns, 0, RDMA_PS_TCP);
    EXPECT_NE(look_up("127.0.0.1", "4711", &hints), nullptr) << "what is done anyway";
}

TEST(AddressInfo, ResolverCodesAreReturnedAsTheyAre) {
    const rdma_addrinfo hints = hints_of(RAI_NUMERICHOST);
    look_up("not-a-number", "1", &hints, EAI_NONAME);
    errno = 0;
    EXPECT_EQ(outcome(rdma_getaddrinfo("127.0.0.1", "1", nullptr, nullptr)), EINVAL);
    rdma_freeaddrinfo(nullptr);
}

// A GID as node, of family AF_IB: a struct sockaddr_ib with the service id of the port.
TEST(AddressInfo, InfiniBandAddresses) {
    for (int flags : {0, int{RAI_PASSIVE}}) {
        const rdma_addrinfo hints = hints_of(flags | RAI_FAMILY | RAI_NUMERICHOST, AF_IB, RDMA_PS_TCP);
        const Found found = look_up("fe80::1:2", "4711", &hints);
        ASSERT_TRUE(found);
        EXPECT_EQ(found->ai_family, AF_IB);
        const sockaddr* address = flags ? found->ai_src_addr : found->ai_dst_addr;
        ASSERT_EQ(flags ? found->ai_src_len : found->ai_dst_len, sizeof(sockaddr_ib));
        sockaddr_ib ib;
        std::memcpy(&ib, address, sizeof ib);
        EXPECT_EQ(ib.sib_family, AF_IB);
        EXPECT_EQ(ntohs(ib.sib_pkey), 0xffff);
        EXPECT_EQ(be64toh(ib.sib_sid), std::uint64_t{RDMA_PS_TCP} << 16 | 4711);
        EXPECT_EQ(be64toh(ib.sib_sid_mask), ~std::uint64_t{0});
        in6_addr gid;
        inet_pton(AF_INET6, "fe80::1:2", &gid);
        EXPECT_EQ(std::memcmp(&ib.sib_addr, &gid, sizeof gid), 0);
    }
}

sockaddr_ib infiniband(const char* gid, std::uint64_t service) {
    sockaddr_ib ib{};
    ib.sib_family = AF_IB;
    ib.sib_pkey = htons(0xffff);
    inet_pton(AF_INET6, gid, &ib.sib_addr);
    ib.sib_sid = htobe64(service);
    ib.sib_sid_mask = htobe64(~std::uint64_t{0});
    return ib;
}

// RoCE devices have no InfiniBand addresses, so an id can be bound to "any" of them only.
TEST(InfiniBand, NoDeviceHasSuchAnAddress) {
    Side side;
    constexpr std::uint64_t kService = std::uint64_t{RDMA_PS_TCP} << 16;
    sockaddr_ib own = infiniband("fe80::1", kService | 4711), any = infiniband("::", kService);
    auto plain = [](sockaddr_ib& ib) { return reinterpret_cast<sockaddr*>(&ib); };
    rdma_cm_id* id = side.id();
    EXPECT_EQ(outcome(rdma_bind_addr(id, plain(own))), ENODEV);
    EXPECT_EQ(outcome(rdma_resolve_addr(id, nullptr, plain(own), kResolveMs)), ENODEV);
    EXPECT_EQ(outcome(rdma_bind_addr(id, plain(any))), 0) << "what failed left it idle";
    EXPECT_EQ(id->verbs, nullptr);
    EXPECT_EQ(rdma_get_local_addr(id)->sa_family, AF_IB);
    EXPECT_NE(source_port(id), 0);
    EXPECT_EQ(outcome(rdma_resolve_addr(id, nullptr, plain(own), kResolveMs)), ENODEV);
    EXPECT_EQ(outcome(rdma_listen(id, 0)), 0);
    EXPECT_TRUE(side.quiet());

    sockaddr_ib strange = infiniband("::", 0x123456789aULL << 16);
    EXPECT_EQ(outcome(rdma_bind_addr(side.id(), plain(strange))), EPROTONOSUPPORT);
}

// Any address includes those of IP.
TEST(InfiniBand, AListenerOnAnyIsReachedByIp) {
    Side server, client;
    sockaddr_ib any = infiniband("::", std::uint64_t{RDMA_PS_TCP} << 16);
    rdma_cm_id* id = server.id();
    ASSERT_EQ(outcome(rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&any))), 0);
    ASSERT_EQ(outcome(rdma_listen(id, 0)), 0);
    rdma_cm_id* active = client.resolved("127.0.0.1", source_port(id));
    auto parameters = parameters_for(unused_qp_number());
    ASSERT_EQ(outcome(rdma_connect(active, &parameters)), 0);
    EXPECT_EQ(server.expect(RDMA_CM_EVENT_CONNECT_REQUEST).listen_id, id);
}

}  // namespace
}  // namespace verbena::rdmacm_test
