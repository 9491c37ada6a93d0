// What the tree says of a device.

#include "view/tree.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace verbena::view {
namespace {

Shown device(const char* name, const char* netdev, unsigned index) {
    Shown shown;
    std::strcpy(shown.device.name.data(), name);
    std::strcpy(shown.device.netdev.data(), netdev);
    shown.device.index = index;
    const unsigned char guid[8] = {0x02, 0x42, 0xac, 0xff, 0xfe, 0x11, 0x00, 0x02};
    std::memcpy(&shown.device.node_guid, guid, sizeof guid);
    shown.device.present = shown.device.active = 1;
    shown.device.speed = 25000;
    shown.device.gids[0] = Gid::from_ipv4(0x0a000001);
    shown.device.gid_valid[0] = 1;
    return shown;
}

class Tree : public testing::Test {
   protected:
    void build(const std::vector<Shown>& devices) {
        for (const Entry& entry : describe(devices)) {
            EXPECT_TRUE(entries.emplace(entry.path, entry).second) << entry.path << " twice";
            const std::string parent = entry.path.substr(0, entry.path.rfind('/'));
            EXPECT_TRUE(parent.empty() || entries.count(parent)) << entry.path << " before its folder";
        }
    }
    // A path through the tree's own links.
    std::string resolve(std::string path) {
        for (std::size_t end = 1; end != std::string::npos;) {
            end = path.find('/', end);
            const std::string part = path.substr(0, end);
            auto found = entries.find(part);
            if (found == entries.end()) return path;
            if (found->second.kind == Entry::Kind::link) {
                std::string target = found->second.text;
                std::string base = part.substr(0, part.rfind('/'));
                while (target.rfind("../", 0) == 0) {
                    target = target.substr(3);
                    base = base.substr(0, base.rfind('/'));
                }
                path = (target[0] == '/' ? target : base + "/" + target) +
                       (end == std::string::npos ? "" : path.substr(end));
                end = 1;
                continue;
            }
            if (end != std::string::npos) end++;
        }
        return path;
    }
    std::string read(const std::string& path) {
        auto found = entries.find(resolve(path));
        return found == entries.end() ? "(absent)" : found->second.text;
    }
    bool has(const std::string& path) { return entries.count(resolve(path)) > 0; }

    std::map<std::string, Entry> entries;
};

TEST_F(Tree, ADevice) {
    build({device("verbena_eth0", "eth0", 3)});
    const std::string at = "/sys/class/infiniband/verbena_eth0";
    EXPECT_EQ(read(at + "/node_guid"), "0242:acff:fe11:0002\n");
    EXPECT_EQ(read(at + "/sys_image_guid"), "0242:acff:fe11:0002\n");
    EXPECT_EQ(read(at + "/node_type"), "1: CA\n");
    EXPECT_EQ(read(at + "/board_id"), "VERBENA0001\n");
    EXPECT_TRUE(has(at + "/device/net/eth0") || resolve(at + "/device/net/eth0") == "/sys/class/net/eth0");
    EXPECT_EQ(resolve(at + "/device/infiniband/verbena_eth0"), resolve(at));
    EXPECT_EQ(resolve(at + "/subsystem"), "/sys/class/infiniband");
}

TEST_F(Tree, APort) {
    build({device("d", "eth0", 0)});
    const std::string port = "/sys/class/infiniband/d/ports/1";
    EXPECT_EQ(read(port + "/state"), "4: ACTIVE\n");
    EXPECT_EQ(read(port + "/phys_state"), "5: LinkUp\n");
    EXPECT_EQ(read(port + "/rate"), "25 Gb/sec (1X EDR)\n");
    EXPECT_EQ(read(port + "/link_layer"), "Ethernet\n");
    EXPECT_EQ(read(port + "/cap_mask"), "0x04010000\n");
    EXPECT_EQ(read(port + "/pkeys/0"), "0xffff\n");
    EXPECT_FALSE(has(port + "/pkeys/1"));
    EXPECT_FALSE(has("/sys/class/infiniband/d/ports/2"));
}

TEST_F(Tree, Rates) {
    auto rate = [this](unsigned megabits) {
        Shown shown = device("d", "eth0", 0);
        shown.device.speed = megabits;
        entries.clear();
        build({shown});
        return read("/sys/class/infiniband/d/ports/1/rate");
    };
    EXPECT_EQ(rate(0), "10 Gb/sec (1X QDR)\n");
    EXPECT_EQ(rate(100), "10 Gb/sec (1X QDR)\n");  // slower than any that InfiniBand knows
    EXPECT_EQ(rate(2500), "2.5 Gb/sec (1X)\n");
    EXPECT_EQ(rate(10000), "10 Gb/sec (1X QDR)\n");
    EXPECT_EQ(rate(100000), "100 Gb/sec (4X EDR)\n");
    EXPECT_EQ(rate(50000), "50 Gb/sec (1X HDR)\n");
    EXPECT_EQ(rate(400000), "400 Gb/sec (4X NDR)\n");
    EXPECT_EQ(rate(40000), "40 Gb/sec (4X QDR)\n");
}

TEST_F(Tree, APortThatIsDown) {
    Shown shown = device("d", "eth0", 0);
    shown.device.active = 0;
    build({shown});
    EXPECT_EQ(read("/sys/class/infiniband/d/ports/1/state"), "1: DOWN\n");
    EXPECT_EQ(read("/sys/class/infiniband/d/ports/1/phys_state"), "3: Disabled\n");
}

TEST_F(Tree, Gids) {
    build({device("d", "eth0", 0)});
    const std::string port = "/sys/class/infiniband/d/ports/1";
    EXPECT_EQ(read(port + "/gids/0"), "0000:0000:0000:0000:0000:ffff:0a00:0001\n");
    EXPECT_EQ(read(port + "/gid_attrs/types/0"), "RoCE v2\n");
    EXPECT_EQ(read(port + "/gid_attrs/ndevs/0"), "eth0\n");
    EXPECT_EQ(read(port + "/gids/1"), "0000:0000:0000:0000:0000:0000:0000:0000\n");
    EXPECT_FALSE(has(port + "/gid_attrs/types/1"));
    EXPECT_TRUE(has(port + "/gids/63"));
    EXPECT_FALSE(has(port + "/gids/64"));
}

TEST_F(Tree, TheVerbsDevice) {
    build({device("d", "eth0", 5)});
    EXPECT_EQ(read("/sys/class/infiniband_verbs/abi_version"), "6\n");
    EXPECT_EQ(read("/sys/class/infiniband_verbs/uverbs5/ibdev"), "d\n");
    EXPECT_EQ(read("/sys/class/infiniband_verbs/uverbs5/dev"), "231:197\n");
    EXPECT_EQ(resolve("/dev/infiniband/uverbs5"), "/dev/null");
    EXPECT_EQ(resolve("/dev/infiniband/rdma_cm"), "/dev/null");
}

TEST_F(Tree, ARealInterfacesParentIsTheRealOne) {
    Shown shown = device("d", "eth0", 0);
    shown.parent = "/sys/devices/pci0000:00/0000:00:03.0";
    build({shown});
    EXPECT_EQ(resolve("/sys/class/infiniband/d/device"), shown.parent);
    EXPECT_FALSE(has("/sys/devices/virtual/verbena/d"));
}

TEST_F(Tree, SeveralDevicesAndNone) {
    build({});
    EXPECT_TRUE(has("/sys/class/infiniband"));
    entries.clear();
    build({device("a", "eth0", 0), device("b", "lo", 1)});
    EXPECT_TRUE(has("/sys/class/infiniband/a/node_guid"));
    EXPECT_TRUE(has("/sys/class/infiniband/b/node_guid"));
    EXPECT_TRUE(has("/sys/class/infiniband_verbs/uverbs1/dev"));
}

}  // namespace
}  // namespace verbena::view
