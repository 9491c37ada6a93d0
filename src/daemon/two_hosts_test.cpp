// Two network namespaces joined by a veth pair, a daemon in each: addresses are resolved and connections made
// over a real link.

#include "base/ipv6_testing.h"
#include "daemon/network_testing.h"

namespace verbena::daemon::testing {
namespace {

// ms, for what will answer: IPv6 takes a second or two to come up on a link, and the machine may be busy.
constexpr std::uint32_t kPatience = 30'000;

// A namespace of its own, joined to ours: far0 10.1.0.2 <-> near0 10.1.0.1.
class TwoHostsTest : public NetworkTest {
   protected:
    void SetUp() override {
        NetworkTest::SetUp();
        if (IsSkipped()) return;
        far_ = start([&] {
            ASSERT_EQ(unshare(CLONE_NEWNET), 0);
            made_.say(1);
            joined_.hear();
            shell(
                "ip link set lo up; ip addr add fd01::2/64 dev far0 nodad; ip addr add 10.1.0.2/24 dev far0");
            shell("ip link set far0 mtu 9000 up");
            made_.say(2);
            far_program();
        });
        made_.hear();
        shell("ip link add near0 type veth peer name far0 netns " + std::to_string(far_));
        shell("ip addr add fd01::1/64 dev near0 nodad; ip addr add 10.1.0.1/24 dev near0");
        shell("ip link set near0 mtu 9000 up");
        joined_.say(1);
        made_.hear();
    }
    // Listens on any address; says the port, takes one connection after the other.
    void far_program() {
        Channel channel;
        daemon_.say(status().daemon_pid);
        host::BindRequest bind;
        bind.id = channel.create_id();
        bind.local.family = AF_INET6;
        ask<cm::IdInfo>(host::Command::bind, bind);
        host::ListenRequest listen;
        listen.id = bind.id;
        port_.say(ask<cm::IdInfo>(host::Command::listen, listen).local.port);
        for (std::uint32_t qp_number = 0x5000;; qp_number++) {
            const cm::Event request = channel.expect(cm::EventType::connect_request);
            host::AcceptRequest accept;
            accept.id = request.id;
            accept.has_parameters = 1;
            accept.parameters.qp_number = qp_number;
            ask<host::Empty>(host::Command::accept, accept);
            channel.expect(cm::EventType::established);
            channel.expect(cm::EventType::disconnected);
            host::IdRequest done;
            done.id = request.id;
            ask<host::Empty>(host::Command::disconnect, done);
        }
    }

    Wire made_, joined_, daemon_, port_;
    pid_t far_ = 0;
};

cm::Endpoint endpoint6(const char* text, std::uint16_t port, std::uint32_t scope = 0) {
    cm::Endpoint out;
    out.family = AF_INET6;
    out.port = port;
    out.scope_id = scope;
    EXPECT_EQ(inet_pton(AF_INET6, text, out.address.bytes.data()), 1);
    return out;
}

host::ResolveAddressRequest resolve_request(Channel& channel, const cm::Endpoint& remote,
                                            std::uint32_t timeout_ms) {
    host::ResolveAddressRequest request;
    request.id = channel.create_id();
    request.timeout_ms = timeout_ms;
    request.remote = remote;
    return request;
}

TEST_F(TwoHostsTest, ConnectOverTheLink) {
    remember(daemon_.hear());
    const auto port = static_cast<std::uint16_t>(port_.hear());
    Wire daemon;
    run([&] {
        Channel channel;
        daemon.say(status().daemon_pid);
        std::uint32_t qp_number = 0x6000;
        for (const cm::Endpoint& remote : {endpoint("10.1.0.2", port), endpoint6("fd01::2", port)}) {
            if (remote.family == AF_INET6 && !knows_ipv6()) continue;
            const host::ResolveAddressRequest address = resolve_request(channel, remote, kPatience);
            ask<host::Empty>(host::Command::resolve_address, address);
            const cm::IdInfo info = channel.expect(cm::EventType::addr_resolved).info;
            const host::IdRequest id{address.id};
            EXPECT_EQ(info.route.path_mtu, 5);
            EXPECT_EQ(info.route.destination_gid, remote.address);
            EXPECT_EQ(info.route.interface_index, devices_by_netdev()["near0"].interface_index);
            host::ResolveRouteRequest route;
            route.id = address.id;
            route.timeout_ms = kPatience;
            ask<host::Empty>(host::Command::resolve_route, route);
            channel.expect(cm::EventType::route_resolved);
            host::ConnectRequest connect;
            connect.id = address.id;
            connect.parameters.qp_number = qp_number++;
            ask<host::Empty>(host::Command::connect, connect);
            channel.expect(cm::EventType::connect_response);
            host::AcceptRequest ready;
            ready.id = address.id;
            ask<host::Empty>(host::Command::accept, ready);
            ask<host::Empty>(host::Command::disconnect, id);
            channel.expect(cm::EventType::disconnected);
        }
    });
    remember(daemon.hear());
}

TEST_F(TwoHostsTest, AddressesThatNobodyHas) {
    remember(daemon_.hear());
    port_.hear();
    Wire daemon;
    run([&] {
        Channel channel;
        daemon.say(status().daemon_pid);
        // On the link, but nobody answers: that ends when the program's patience does.
        ask<host::Empty>(host::Command::resolve_address,
                         resolve_request(channel, endpoint("10.1.0.77", 1), 2000));
        const cm::Event event = channel.next();
        EXPECT_EQ(event.type, cm::EventType::addr_error);
        EXPECT_EQ(event.status, -ETIMEDOUT);
        // No route at all.
        ask<host::Empty>(host::Command::resolve_address,
                         resolve_request(channel, endpoint("203.0.113.1", 1), 2000), ENETUNREACH);
    });
    remember(daemon.hear());
}

}  // namespace
}  // namespace verbena::daemon::testing
