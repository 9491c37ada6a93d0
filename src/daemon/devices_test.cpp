#include "daemon/devices.h"

#include <gtest/gtest.h>

#include <memory>

#include "daemon/fake_kernel.h"

namespace verbena::daemon::testing {
namespace {

constexpr std::size_t kLargeBuffer = 8 << 20;

class DevicesTest : public ::testing::Test {
   protected:
    std::vector<std::uint32_t> update(bool may_reorder = false) {
        return devices.update(links, locals, may_reorder);
    }
    host::Device read(unsigned slot) {
        host::Device device;
        EXPECT_TRUE(host::read_device(*table, slot, device)) << slot;
        return device;
    }
    bool has(unsigned slot) {
        host::Device device;
        return host::read_device(*table, slot, device);
    }
    std::vector<std::string> gids(unsigned slot) {
        std::vector<std::string> out;
        const host::Device device = read(slot);
        for (unsigned i = 0; i < device.gid_count; i++)
            out.push_back(device.gid_valid[i] ? to_string(device.gids[i]) : "");
        return out;
    }

    std::unique_ptr<host::DeviceTable> table = std::make_unique<host::DeviceTable>();
    Devices devices{*table, 42, kLargeBuffer};
    std::vector<Interface> links = {interface(1, "lo", 65536), interface(2, "eth0"),
                                    interface(3, "eth1", 9000)};
    std::vector<Address> locals = {address(1, "127.0.0.1"), address(1, "::1"),      address(2, "fe80::2"),
                                   address(2, "fd00::2"),   address(2, "10.0.0.2"), address(3, "10.0.1.3")};
};

using Names = std::vector<std::string>;

TEST_F(DevicesTest, RealOnesFirstLoopbackLast) {
    EXPECT_TRUE(update().empty());
    EXPECT_EQ(table->count, host::kMaxDevices);
    EXPECT_STREQ(read(0).name.data(), "verbena_eth0");
    EXPECT_STREQ(read(1).name.data(), "verbena_eth1");
    EXPECT_FALSE(has(2));
    EXPECT_STREQ(read(host::kLoopbackSlot).name.data(), "verbena_lo");
    EXPECT_FALSE(has(host::kMaxDevices));
    EXPECT_EQ(devices.count(), 3u);
    EXPECT_EQ(table->sequence % 2, 0u);
}

TEST_F(DevicesTest, GidOrder) {
    locals.push_back(address(2, "169.254.1.1"));
    locals.push_back({gid("fd00::9"), 2, true, true});
    locals.push_back(address(2, "10.0.0.3"));
    update();
    EXPECT_EQ(gids(0), (Names{"10.0.0.2", "10.0.0.3", "fd00::2", "fd00::9", "169.254.1.1", "fe80::2"}));
    EXPECT_EQ(gids(host::kLoopbackSlot), (Names{"127.0.0.1", "::1", "127.0.0.1", "127.0.0.1"}));
}

// Programs that take 1 or 3 without looking shall find an address there.
TEST_F(DevicesTest, TheFirstGidIsRepeatedWhereThereAreFew) {
    locals = {address(2, "10.0.0.2"), address(3, "10.0.1.3"), address(3, "fe80::3")};
    update();
    EXPECT_EQ(gids(0), Names(4, "10.0.0.2"));
    EXPECT_EQ(gids(1), (Names{"10.0.1.3", "fe80::3", "10.0.1.3", "10.0.1.3"}));
    EXPECT_EQ(devices.find(gid("10.0.0.2")).gid_index, 0u);
    // What comes later has the place that it would have had, and what goes leaves none behind.
    locals.push_back(address(2, "fd00::2"));
    locals.push_back(address(2, "fe80::2"));
    update();
    EXPECT_EQ(gids(0), (Names{"10.0.0.2", "fd00::2", "fe80::2", "10.0.0.2"}));
    std::erase_if(locals, [](const Address& a) { return a.gid == gid("fd00::2"); });
    update();
    EXPECT_EQ(gids(0), (Names{"10.0.0.2", "10.0.0.2", "fe80::2", "10.0.0.2"}));
    locals.erase(locals.begin());
    update();
    EXPECT_EQ(gids(0), (Names{"", "", "fe80::2"}));
}

TEST_F(DevicesTest, AnAddressIsFoundAtTheDeviceThatHasIt) {
    update();
    const auto finds = [&](const char* address, unsigned slot) {
        std::uint32_t index = ~0u;
        const host::Device* const device = devices.find(gid(address)).device;
        return host::find_address(*table, gid(address), index) && index == read(slot).index && device &&
               device->index == index;
    };
    const auto is_nowhere = [&](const char* address) {
        std::uint32_t index;
        return !host::find_address(*table, gid(address), index) && !devices.find(gid(address)).device;
    };
    EXPECT_TRUE(finds("10.0.0.2", 0));
    EXPECT_TRUE(finds("fe80::2", 0));
    EXPECT_TRUE(finds("10.0.1.3", 1));
    EXPECT_TRUE(finds("::1", host::kLoopbackSlot));
    EXPECT_TRUE(is_nowhere("10.0.0.3"));
    const std::uint32_t first = read(0).index;
    EXPECT_EQ(devices.by_index(first)->interface_index, 2u);
    links.erase(links.begin() + 1);
    update();
    EXPECT_TRUE(is_nowhere("10.0.0.2"));
    EXPECT_EQ(devices.by_index(first), nullptr);
    EXPECT_TRUE(finds("10.0.1.3", 1));
    table->sequence++;  // the daemon has died while it wrote
    std::uint32_t index;
    EXPECT_FALSE(host::find_address(*table, gid("10.0.1.3"), index));
}

TEST_F(DevicesTest, GidsStayWhileTheirAddressLives) {
    update();
    const std::uint64_t generation = read(0).gid_generation;
    update();
    EXPECT_EQ(read(0).gid_generation, generation);
    std::erase_if(locals, [](const Address& a) { return a.gid == gid("10.0.0.2"); });
    update();
    EXPECT_EQ(gids(0), (Names{"", "fd00::2", "fe80::2"}));
    EXPECT_GT(read(0).gid_generation, generation);
    locals.push_back(address(2, "10.0.0.7"));
    locals.push_back(address(2, "fd00::7"));
    update();
    EXPECT_EQ(gids(0), (Names{"10.0.0.7", "fd00::2", "fe80::2", "fd00::7"}));
    // With nobody connected they are put into order.
    update(true);
    EXPECT_EQ(gids(0), (Names{"10.0.0.7", "fd00::2", "fd00::7", "fe80::2"}));
}

TEST_F(DevicesTest, TheLastEntryStaysEmpty) {
    for (int i = 3; i < 100; i++) locals.push_back(address(2, ("10.0.0." + std::to_string(i)).c_str()));
    update();
    EXPECT_EQ(read(0).gid_count, host::kMaxGids - 1);
    EXPECT_FALSE(read(0).gid_valid[host::kMaxGids - 1]);
}

TEST_F(DevicesTest, TentativeAddressesWait) {
    locals = {address(2, "fd00::2"), {gid("fd00::3"), 2, false, false}};
    update();
    EXPECT_EQ(gids(0), Names(4, "fd00::2"));
    EXPECT_FALSE(devices.find(gid("fd00::3")).device);
    EXPECT_TRUE(devices.is_own(gid("fd00::3")));
}

TEST_F(DevicesTest, NoDeviceWithoutAnAddressOrDown) {
    links[1].up = false;
    std::erase_if(locals, [](const Address& a) { return a.interface_index == 3; });
    update();
    EXPECT_EQ(devices.count(), 1u);
    EXPECT_TRUE(devices.is_own(gid("10.0.0.2")));
    EXPECT_FALSE(devices.find(gid("10.0.0.2")).device);
}

TEST_F(DevicesTest, ComingAndGoing) {
    update();
    const std::uint32_t eth0 = read(0).index, eth1 = read(1).index;
    EXPECT_NE(eth0, eth1);
    // Down: the device stays for those that use it.
    links[1].up = false;
    EXPECT_TRUE(update().empty());
    EXPECT_FALSE(read(0).active);
    EXPECT_EQ(read(0).index, eth0);
    links[1].up = true;
    update();
    EXPECT_TRUE(read(0).active);
    links[1].running = false;
    update();
    EXPECT_FALSE(read(0).active);
    // Gone: its slot is free, its index is not.
    links.erase(links.begin() + 1);
    EXPECT_EQ(update(), std::vector<std::uint32_t>{eth0});
    EXPECT_FALSE(has(0));
    EXPECT_EQ(read(1).index, eth1);
    EXPECT_EQ(devices.by_index(eth0), nullptr);
    links.push_back(interface(9, "eth9"));
    locals.push_back(address(9, "10.0.9.9"));
    update();
    EXPECT_STREQ(read(0).name.data(), "verbena_eth9");
    EXPECT_NE(read(0).index, eth0);
    EXPECT_NE(read(0).index, eth1);
}

TEST_F(DevicesTest, DownWithNobodyConnectedIsGone) {
    update();
    links[1].up = false;
    EXPECT_EQ(update(true).size(), 1u);
    EXPECT_FALSE(has(0));
}

TEST_F(DevicesTest, MoreInterfacesThanSlots) {
    for (std::uint32_t i = 10; i < 100; i++) {
        links.push_back(interface(i, ("v" + std::to_string(i)).c_str()));
        locals.push_back(address(i, ("10.9.0." + std::to_string(i)).c_str()));
    }
    update();
    EXPECT_EQ(devices.count(), host::kMaxDevices);
    EXPECT_STREQ(read(host::kLoopbackSlot).name.data(), "verbena_lo");
}

TEST_F(DevicesTest, PathMtu) {
    EXPECT_EQ(path_mtu_for(65536), 5);
    EXPECT_EQ(path_mtu_for(9000), 5);
    EXPECT_EQ(path_mtu_for(4192), 5);
    EXPECT_EQ(path_mtu_for(4191), 4);
    EXPECT_EQ(path_mtu_for(1500), 3);
    EXPECT_EQ(path_mtu_for(1280), 3);
    EXPECT_EQ(path_mtu_for(576), 1);
    EXPECT_EQ(path_mtu_for(50), 1);
    update();
    EXPECT_EQ(read(0).active_mtu, 3u);
    EXPECT_EQ(read(1).active_mtu, 5u);
    EXPECT_EQ(read(host::kLoopbackSlot).active_mtu, 5u);
}

// 128 packets may arrive unasked.
TEST_F(DevicesTest, ASmallReceiveBufferBoundsThePathMtu) {
    for (auto [buffer, expected] :
         {std::pair<std::size_t, std::uint32_t>{425'984, 4}, {212'992, 3}, {1000, 3}, {kLargeBuffer, 5}}) {
        Devices limited(*table, 42, buffer);
        limited.update(links, locals, false);
        EXPECT_EQ(read(1).active_mtu, expected) << buffer;
        EXPECT_EQ(read(host::kLoopbackSlot).active_mtu, 5u);
    }
}

TEST_F(DevicesTest, NodeGuids) {
    links[1].mac = {0x02, 0x11, 0x22, 0x33, 0x44, 0x55};
    links.push_back(interface(7, "tun0"));
    links.back().has_mac = false;
    locals.push_back(address(7, "10.7.0.1"));
    update();
    const std::uint8_t expected[8] = {0x00, 0x11, 0x22, 0xff, 0xfe, 0x33, 0x44, 0x55};
    EXPECT_EQ(std::memcmp(&devices.by_interface(2)->node_guid, expected, 8), 0);
    EXPECT_NE(devices.by_interface(7)->node_guid, devices.loopback()->node_guid);
    EXPECT_NE(devices.loopback()->node_guid, 0u);
}

TEST_F(DevicesTest, AnotherHardwareAddress) {
    update();
    EXPECT_TRUE(devices.moved().empty());
    links[1].mac = {0x02, 0x11, 0x22, 0x33, 0x44, 0x66};
    update();
    EXPECT_EQ(devices.moved(), std::vector{devices.by_interface(2)->index});
    update();
    EXPECT_TRUE(devices.moved().empty()) << "told once";
    links.erase(links.begin() + 1);  // gone is not moved
    update();
    EXPECT_TRUE(devices.moved().empty());
}

TEST_F(DevicesTest, NamesAsTheProgramWantsThem) {
    update();
    setenv("VERBENA_DEVICE", "mlx5_", 1);
    EXPECT_STREQ(read(0).name.data(), "mlx5_0");
    EXPECT_STREQ(read(1).name.data(), "mlx5_1");
    EXPECT_STREQ(read(host::kLoopbackSlot).name.data(), "mlx5_2");
    setenv("VERBENA_DEVICE", "eth1=rxe7,lo=rxe_lo", 1);
    EXPECT_STREQ(read(0).name.data(), "verbena_eth0");
    EXPECT_STREQ(read(1).name.data(), "rxe7");
    EXPECT_STREQ(read(host::kLoopbackSlot).name.data(), "rxe_lo");
    setenv("VERBENA_DEVICE", std::string(200, 'x').c_str(), 1);
    EXPECT_EQ(std::strlen(read(0).name.data()), 63u);
    unsetenv("VERBENA_DEVICE");
    EXPECT_STREQ(read(0).name.data(), "verbena_eth0");
}

TEST_F(DevicesTest, TheOnesThatTheProgramIsToSee) {
    update();
    const auto shown = [&](const char* setting) {
        setenv("VERBENA_DEVICES", setting, 1);
        Names out;
        for (const unsigned slot : {0u, 1u, host::kLoopbackSlot})
            if (const host::Device device = read(slot); host::is_shown(device))
                out.push_back(device.name.data());
        unsetenv("VERBENA_DEVICES");
        return out;
    };
    EXPECT_EQ(shown(""), (Names{"verbena_eth0", "verbena_eth1", "verbena_lo"}));
    EXPECT_EQ(shown("!lo"), (Names{"verbena_eth0", "verbena_eth1"}));
    EXPECT_EQ(shown("eth*,!eth0"), (Names{"verbena_eth1"}));
    EXPECT_EQ(shown(",lo,eth1"), (Names{"verbena_eth1", "verbena_lo"}));
    EXPECT_EQ(shown("eth7"), Names{});
    setenv("VERBENA_DEVICE", "mlx5_", 1);
    EXPECT_EQ(shown("!eth0"), (Names{"mlx5_0", "mlx5_1"}));
    setenv("VERBENA_DEVICES", "!eth0", 1);
    EXPECT_STREQ(read(0).name.data(), "verbena_eth0") << "no other's name";
    unsetenv("VERBENA_DEVICES");
    unsetenv("VERBENA_DEVICE");
}

TEST_F(DevicesTest, ATableWhoseWriterDiedIsNoHang) {
    update();
    table->sequence++;
    EXPECT_FALSE(has(0));
}

}  // namespace
}  // namespace verbena::daemon::testing
