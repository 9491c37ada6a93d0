#include "daemon/routes.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/reason.h"
#include "daemon/fake_kernel.h"

namespace verbena::daemon::testing {
namespace {

class RoutesTest : public ::testing::Test {
   protected:
    RoutesTest() {
        kernel.links = {interface(1, "lo", 65536), interface(2, "eth0"), interface(3, "eth1", 9000),
                        interface(4, "down0")};
        kernel.links[3].up = false;
        kernel.locals = {address(1, "127.0.0.1"), address(1, "::1"),     address(2, "10.0.0.2"),
                         address(2, "fd00::2"),   address(2, "fe80::1"), address(3, "10.0.1.3"),
                         address(3, "fe80::1"),   address(3, "fe80::3"), address(4, "10.0.4.4")};
        kernel.routes[gid("10.0.0.9")] = {2, gid("10.0.0.2"), gid("10.0.0.9"), false, false};
        kernel.routes[gid("8.8.8.8")] = {3, gid("10.0.1.3"), gid("10.0.1.1"), false, false};
        kernel.routes[gid("fd00::9")] = {2, {}, gid("fd00::9"), false, false};
        kernel.routes[gid("fe80::9")] = {3, {}, gid("fe80::9"), false, false};
        kernel.routes[gid("10.0.4.9")] = {4, gid("10.0.4.4"), gid("10.0.4.9"), false, false};
        devices.update(kernel.links, kernel.locals, false);
    }
    static cm::Endpoint to(const char* text, std::uint32_t scope = 0) {
        cm::Endpoint out;
        out.address = gid(text);
        out.family = out.address.is_ipv4() ? AF_INET : AF_INET6;
        out.scope_id = scope;
        return out;
    }
    int find(const cm::Endpoint& source, const cm::Endpoint& remote) {
        route = {};
        from = {};
        return routes.find_route(source, remote, route, from);
    }
    std::uint32_t device_on(std::uint32_t interface_index) {
        return devices.by_interface(interface_index)->index;
    }

    FakeKernel kernel;
    std::unique_ptr<host::DeviceTable> table = std::make_unique<host::DeviceTable>();
    Devices devices{*table, 42, 8 << 20};
    Routes routes{devices, kernel};
    cm::Route route;
    Gid from;
    const cm::Endpoint any;
};

TEST_F(RoutesTest, Local) {
    ASSERT_EQ(routes.find_local(to("10.0.1.3"), route), 0);
    EXPECT_EQ(route.device, device_on(3));
    EXPECT_EQ(route.interface_index, 3u);
    EXPECT_EQ(route.source_gid, gid("10.0.1.3"));
    EXPECT_EQ(route.gid_index, 0);
    EXPECT_EQ(route.path_mtu, 5);
    ASSERT_EQ(routes.find_local(to("fd00::2"), route), 0);
    EXPECT_EQ(route.gid_index, 1);
    EXPECT_EQ(route.path_mtu, 3);
    EXPECT_EQ(routes.find_local(to("10.0.4.4"), route), ENODEV);
    EXPECT_EQ(routes.find_local(to("10.0.0.3"), route), EADDRNOTAVAIL);
}

TEST_F(RoutesTest, AGroupIsReachedByTheSourcesDevice) {
    ASSERT_EQ(find(to("fd00::2"), to("ff0e::7")), 0) << last_reason();
    EXPECT_EQ(route.device, device_on(2));
    EXPECT_EQ(route.destination_gid, gid("ff0e::7"));
    EXPECT_EQ(from, gid("fd00::2"));
    ASSERT_EQ(find(to("127.0.0.1"), to("239.1.1.1")), 0) << last_reason();
    EXPECT_EQ(route.device, device_on(1));
    EXPECT_EQ(find(any, to("239.1.1.1")), ENETUNREACH) << "nobody says by which interface";
}

TEST_F(RoutesTest, WithoutTheWireTheNetworkIsUnreachable) {
    const Routes narrow{devices, kernel, "the fabric ends here"};
    for (const char* text : {"10.0.0.9", "fd00::9"}) {
        EXPECT_EQ(narrow.find_route(any, to(text), route, from), ENETUNREACH) << text;
        EXPECT_EQ(last_reason(), std::string(text) + ": the fabric ends here");
    }
    for (const char* text : {"127.0.0.1", "10.0.1.3", "fd00::2"})
        EXPECT_EQ(narrow.find_route(any, to(text), route, from), 0) << text << ": " << last_reason();
    EXPECT_EQ(narrow.find_route(to("10.0.0.2"), to("239.1.1.1"), route, from), 0) << last_reason();
}

TEST_F(RoutesTest, LocalLoopback) {
    for (const char* text : {"127.0.0.1", "127.1.2.3"}) {
        ASSERT_EQ(routes.find_local(to(text), route), 0);
        EXPECT_EQ(route.device, device_on(1));
        EXPECT_EQ(route.source_gid, gid("127.0.0.1"));
    }
    ASSERT_EQ(routes.find_local(to("::1"), route), 0);
    EXPECT_EQ(route.gid_index, 1);
}

TEST_F(RoutesTest, LocalLinkLocalByScope) {
    ASSERT_EQ(routes.find_local(to("fe80::1", 2), route), 0);
    EXPECT_EQ(route.device, device_on(2));
    ASSERT_EQ(routes.find_local(to("fe80::1", 3), route), 0);
    EXPECT_EQ(route.device, device_on(3));
    EXPECT_EQ(routes.find_local(to("fe80::1", 4), route), EADDRNOTAVAIL);
}

TEST_F(RoutesTest, ToLoopback) {
    for (const char* text : {"127.0.0.1", "127.0.0.7", "0.0.0.0"}) {
        ASSERT_EQ(find(any, to(text)), 0) << last_reason();
        EXPECT_EQ(route.device, device_on(1));
        EXPECT_EQ(route.destination_gid, gid("127.0.0.1"));
        EXPECT_EQ(route.source_gid, gid("127.0.0.1"));
        EXPECT_EQ(from, std::string(text) == "127.0.0.7" ? gid("127.0.0.7") : gid("127.0.0.1"));
    }
    for (const char* text : {"::1", "::"}) {
        ASSERT_EQ(find(any, to(text)), 0) << last_reason();
        EXPECT_EQ(route.destination_gid, gid("::1"));
        EXPECT_EQ(from, gid("::1"));
    }
}

TEST_F(RoutesTest, ToOwnAddresses) {
    ASSERT_EQ(find(any, to("10.0.1.3")), 0);
    EXPECT_EQ(route.device, device_on(3));
    EXPECT_EQ(route.source_gid, gid("10.0.1.3"));
    EXPECT_EQ(route.destination_gid, gid("10.0.1.3"));
    EXPECT_EQ(from, gid("10.0.1.3"));
    // From another address of ours: that one's device.
    ASSERT_EQ(find(to("10.0.0.2"), to("10.0.1.3")), 0);
    EXPECT_EQ(route.device, device_on(2));
    EXPECT_EQ(route.destination_gid, gid("10.0.1.3"));
    EXPECT_EQ(find(any, to("10.0.4.4")), ENODEV);
}

TEST_F(RoutesTest, ToTheNetwork) {
    ASSERT_EQ(find(any, to("10.0.0.9")), 0);
    EXPECT_EQ(route.device, device_on(2));
    EXPECT_EQ(from, gid("10.0.0.2"));
    EXPECT_EQ(route.destination_gid, gid("10.0.0.9"));
    // Over a gateway the destination stays what it is.
    ASSERT_EQ(find(any, to("8.8.8.8")), 0);
    EXPECT_EQ(route.device, device_on(3));
    EXPECT_EQ(route.destination_gid, gid("8.8.8.8"));
    // No source in the route: the first of its kind on the device.
    ASSERT_EQ(find(any, to("fd00::9")), 0);
    EXPECT_EQ(from, gid("fd00::2"));
}

TEST_F(RoutesTest, ToTheNetworkFromAnAddress) {
    ASSERT_EQ(find(to("10.0.0.2"), to("8.8.8.8")), 0);
    EXPECT_EQ(kernel.asked.source, gid("10.0.0.2"));
    EXPECT_EQ(route.device, device_on(2));  // the packets carry that device's GID
    EXPECT_EQ(from, gid("10.0.0.2"));
    EXPECT_EQ(find(to("10.0.0.3"), to("8.8.8.8")), EADDRNOTAVAIL);
    EXPECT_EQ(find(to("fd00::2"), to("8.8.8.8")), EINVAL);
}

TEST_F(RoutesTest, ToLinkLocal) {
    EXPECT_EQ(find(any, to("fe80::9")), EINVAL);
    ASSERT_EQ(find(any, to("fe80::9", 3)), 0) << last_reason();
    EXPECT_EQ(kernel.asked.interface_index, 3u);
    EXPECT_EQ(route.device, device_on(3));
    EXPECT_EQ(route.interface_index, 3u);
    EXPECT_TRUE(from.is_link_local());
}

TEST_F(RoutesTest, Nowhere) {
    EXPECT_EQ(find(any, to("203.0.113.1")), ENETUNREACH);
    EXPECT_EQ(find(any, to("10.0.4.9")), ENODEV);
}

}  // namespace
}  // namespace verbena::daemon::testing
