#include "cm/near_miss.h"

#include "cm/testing.h"
#include "cm/text.h"

namespace verbena::cm::testing {
namespace {

Id at(const Endpoint& local, IdState state, PortSpace space = PortSpace::tcp) {
    Id id;
    id.local = local;
    id.state = state;
    id.port_space = space;
    id.has_port = true;
    id.family_only = local.family == AF_INET;
    return id;
}

TEST(NearMiss, NamesWhatIsThere) {
    Endpoint wanted = loopback6(42956);
    std::map<IdNumber, Id> ids;
    EXPECT_EQ(near_misses(ids, PortSpace::tcp, wanted), "; this host has no listener");
    ids[1] = at(ipv4(0x0a000001, 7471), IdState::listen);
    ids[2] = at(ipv4(0x0a000001, 7472), IdState::address_bound);
    EXPECT_EQ(near_misses(ids, PortSpace::tcp, wanted), "; this host listens on 10.0.0.1:7471");
    ids[3] = at(any4(42956), IdState::listen);
    EXPECT_EQ(near_misses(ids, PortSpace::tcp, wanted),
              "; on that port: 0.0.0.0:42956 takes its own address family only");
    ids[3] = at(loopback6(42956), IdState::listen, PortSpace::udp);
    ids[4] = at(loopback6(42956), IdState::address_bound);
    EXPECT_EQ(near_misses(ids, PortSpace::tcp, wanted),
              "; on that port: [::1]:42956 in RDMA_PS_UDP, [::1]:42956 is bound but does not listen");
}

class NearMissOfARequest : public Pair {};

// Of a peer on another host nothing is known.
TEST_F(NearMissOfARequest, IsToldToTheProgramOfThisHost) {
    listener(server, loopback4(7471));
    connecting(server, loopback4(7472), 0x100);
    net.run();
    EXPECT_STREQ(server.take().note.data(), "; this host listens on 127.0.0.1:7471");
    connecting(client, server.address(7472), 0x101);
    net.run();
    EXPECT_STREQ(client.take().note.data(), "");
}

TEST(NearMiss, EveryStateHasAName) {
    for (int i = 0; i <= static_cast<int>(IdState::destroying); i++)
        EXPECT_STRNE(to_string(static_cast<IdState>(i)), "unknown");
    for (int i = 0; i <= static_cast<int>(ConnectionState::closed); i++)
        EXPECT_STRNE(to_string(static_cast<ConnectionState>(i)), "unknown");
    for (PortSpace space : {PortSpace::tcp, PortSpace::udp, PortSpace::ipoib, PortSpace::ib})
        EXPECT_STRNE(to_string(space), "unknown");
}

}  // namespace
}  // namespace verbena::cm::testing
