// Connections between programs through verbenad: the connection manager's messages travel as packets over
// loopback.

#include "daemon/testing.h"

namespace verbena::daemon::testing {
namespace {

class ConnectTest : public FabricTest {
   protected:
    // Resolves to `remote` and leaves the id ready to connect.
    static cm::IdNumber resolve(Channel& channel, const cm::Endpoint& remote,
                                cm::PortSpace port_space = cm::PortSpace::tcp) {
        host::ResolveAddressRequest address;
        address.id = channel.create_id(port_space);
        address.timeout_ms = 2000;
        address.remote = remote;
        ask<host::Empty>(host::Command::resolve_address, address);
        channel.expect(cm::EventType::addr_resolved);
        host::ResolveRouteRequest route;
        route.id = address.id;
        route.timeout_ms = 2000;
        ask<host::Empty>(host::Command::resolve_route, route);
        channel.expect(cm::EventType::route_resolved);
        return address.id;
    }
    static cm::IdInfo listen(Channel& channel, const cm::Endpoint& local,
                             cm::PortSpace port_space = cm::PortSpace::tcp) {
        host::BindRequest bind;
        bind.id = channel.create_id(port_space);
        bind.local = local;
        ask<cm::IdInfo>(host::Command::bind, bind);
        host::ListenRequest request;
        request.id = bind.id;
        return ask<cm::IdInfo>(host::Command::listen, request);
    }
    static host::ConnectRequest connect_request(cm::IdNumber id, std::uint32_t qp_number, const char* text) {
        host::ConnectRequest request;
        request.id = id;
        request.parameters.qp_number = qp_number;
        request.parameters.responder_resources = request.parameters.initiator_depth = 1;
        request.parameters.private_data_length = static_cast<std::uint8_t>(std::strlen(text));
        std::memcpy(request.parameters.private_data.data(), text, std::strlen(text));
        return request;
    }
    static host::AcceptRequest accept_request(cm::IdNumber id, std::uint32_t qp_number) {
        host::AcceptRequest request;
        request.id = id;
        request.has_parameters = 1;
        request.user_handle = 77;
        request.parameters.qp_number = qp_number;
        return request;
    }
};

TEST_F(ConnectTest, ConnectAcceptDisconnect) {
    std::uint32_t qp_number = 0x1234;
    for (const char* address : {"127.0.0.1", "127.0.0.9"}) {
        qp_number++;  // the one before is in time-wait
        Wire port;
        const pid_t server = start([&] {
            Channel channel;
            const cm::IdInfo listener = listen(channel, endpoint("0.0.0.0", 0));
            port.say(listener.local.port);
            const cm::Event request = channel.expect(cm::EventType::connect_request);
            EXPECT_EQ(request.listen_id, listener.id);
            EXPECT_EQ(request.connection.private_data_length, 56);
            EXPECT_EQ(std::memcmp(request.connection.private_data.data(), "knock", 6), 0);
            EXPECT_EQ(request.connection.qp_number, qp_number);
            ask<host::Empty>(host::Command::accept, accept_request(request.id, qp_number + 0x1000));
            const cm::Event established = channel.expect(cm::EventType::established);
            EXPECT_EQ(established.id, request.id);
            EXPECT_EQ(established.user_handle, 77u);
            channel.expect(cm::EventType::disconnected);
        });
        const auto number = static_cast<std::uint16_t>(port.hear());
        run([&] {
            Channel channel;
            const cm::IdNumber id = resolve(channel, endpoint(address, number));
            ask<host::Empty>(host::Command::connect, connect_request(id, qp_number, "knock"));
            const cm::Event response = channel.expect(cm::EventType::connect_response);
            EXPECT_EQ(response.connection.qp_number, qp_number + 0x1000);
            host::AcceptRequest ready;  // RTU
            ready.id = id;
            ask<host::Empty>(host::Command::accept, ready);
            host::IdRequest disconnect;
            disconnect.id = id;
            ask<host::Empty>(host::Command::disconnect, disconnect);
            channel.expect(cm::EventType::disconnected);
        });
        EXPECT_EQ(wait_for(server), 0);
    }
}

TEST_F(ConnectTest, NobodyListens) {
    run([] {
        Channel channel;
        const cm::IdNumber id = resolve(channel, endpoint("127.0.0.1", 9));
        ask<host::Empty>(host::Command::connect, connect_request(id, 0x1234, ""));
        channel.expect(cm::EventType::rejected, 8);
    });
}

// A killed program's peer learns it at once, while the killed one cannot say anything any more.
TEST_F(ConnectTest, TheDaemonDisconnectsForTheDead) {
    Wire port, connected;
    const pid_t server = start([&] {
        Channel channel;
        port.say(listen(channel, endpoint("127.0.0.1", 0)).local.port);
        const cm::Event request = channel.expect(cm::EventType::connect_request);
        ask<host::Empty>(host::Command::accept, accept_request(request.id, 0x2345));
        channel.expect(cm::EventType::established);
        connected.say(1);
        pause();
    });
    const auto number = static_cast<std::uint16_t>(port.hear());
    run([&] {
        Channel channel;
        const cm::IdNumber id = resolve(channel, endpoint("127.0.0.1", number));
        ask<host::Empty>(host::Command::connect, connect_request(id, 0x1234, ""));
        channel.expect(cm::EventType::connect_response);
        host::AcceptRequest ready;
        ready.id = id;
        ask<host::Empty>(host::Command::accept, ready);
        connected.hear();
        const Time killed = now();
        end_process(server);
        channel.expect(cm::EventType::disconnected);
        EXPECT_LT(now() - killed, kSecond);
    });
}

TEST_F(ConnectTest, DatagramServiceResolution) {
    Wire port;
    const pid_t server = start([&] {
        Channel channel;
        port.say(listen(channel, endpoint("127.0.0.1", 0), cm::PortSpace::udp).local.port);
        const cm::Event request = channel.expect(cm::EventType::connect_request);
        host::AcceptRequest accept = accept_request(request.id, 0x2345);
        accept.parameters.qp_type = cm::QpType::ud;
        ask<host::Empty>(host::Command::accept, accept);
        usleep(200'000);
    });
    const auto number = static_cast<std::uint16_t>(port.hear());
    run([&] {
        Channel channel;
        const cm::IdNumber id = resolve(channel, endpoint("127.0.0.1", number), cm::PortSpace::udp);
        host::ConnectRequest request = connect_request(id, 0x1234, "");
        request.parameters.qp_type = cm::QpType::ud;
        ask<host::Empty>(host::Command::connect, request);
        const cm::Event established = channel.expect(cm::EventType::established);
        EXPECT_EQ(established.connection.qp_number, 0x2345u);
    });
    EXPECT_EQ(wait_for(server), 0);
}

TEST_F(ConnectTest, WhatIsToldAndRefusedIsAnEvent) {
    run([&] {
        Channel channel;
        const auto refuses = [&](host::Command command, const auto& request, int error, cm::EventType as) {
            const auto* bytes = static_cast<const std::uint8_t*>(static_cast<const void*>(&request));
            ASSERT_EQ(host::tell(command, std::span(bytes, sizeof request)), 0);
            const cm::Event refused = channel.expect(cm::EventType::internal, -error);
            EXPECT_EQ(refused.id, request.id);
            EXPECT_EQ(refused.argument, static_cast<std::uint64_t>(as));
        };
        refuses(host::Command::connect, connect_request(channel.create_id(), 0x1234, ""), EINVAL,
                cm::EventType::connect_error);
        refuses(host::Command::accept, accept_request(channel.create_id(), 0x1234), EINVAL,
                cm::EventType::connect_error);
        host::ResolveAddressRequest resolve;
        resolve.id = channel.create_id();
        refuses(host::Command::resolve_address, resolve, EAFNOSUPPORT, cm::EventType::addr_error);
    });
}

TEST_F(ConnectTest, LowPortsNeedAPrivilege) {
    if (geteuid() != 0) GTEST_SKIP() << "needs root to drop it";
    share_daemon();
    run([] {
        Channel channel;
        host::BindRequest bind;
        bind.id = channel.create_id();
        bind.local = endpoint("127.0.0.1", 99);
        ask<cm::IdInfo>(host::Command::bind, bind);
        // A source address binds as well.
        host::ResolveAddressRequest resolve;
        resolve.id = channel.create_id();
        resolve.has_source = 1;
        resolve.source = endpoint("127.0.0.1", 97);
        resolve.remote = endpoint("127.0.0.1", 7);
        ask<host::Empty>(host::Command::resolve_address, resolve);
    });
    run([] {
        ASSERT_EQ(setresuid(65534, 65534, 65534), 0);
        Channel channel;
        host::BindRequest bind;
        bind.id = channel.create_id();
        bind.local = endpoint("127.0.0.1", 98);
        ask<cm::IdInfo>(host::Command::bind, bind, EACCES);
        host::ResolveAddressRequest resolve;
        resolve.id = channel.create_id();
        resolve.has_source = 1;
        resolve.source = endpoint("127.0.0.1", 96);
        resolve.remote = endpoint("127.0.0.1", 7);
        ask<host::Empty>(host::Command::resolve_address, resolve, EACCES);
        bind.local = endpoint("127.0.0.1", 9998);
        ask<cm::IdInfo>(host::Command::bind, bind);
    });
}

}  // namespace
}  // namespace verbena::daemon::testing
