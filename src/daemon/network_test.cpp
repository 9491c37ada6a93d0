// verbenad and the network: who gets the wire, and which devices there are. Each test
// makes a network namespace of its own; without root there is nothing to test here.

#include "base/ipv6_testing.h"
#include "daemon/network_testing.h"
#include "link/steering.h"

namespace verbena::daemon::testing {
namespace {

// Half a second when a processor is there; a machine under load has taken four.
constexpr Duration kNoHang = 12 * kSecond;

TEST_F(NetworkTest, TheDefaultFabricHasTheWire) {
    Wire daemon;
    run([&] {
        daemon.say(status().daemon_pid);
        EXPECT_EQ(open_device().queue.udp_port, 4791);
        EXPECT_TRUE(hello().fabric.wire_available);
        EXPECT_STREQ(hello().fabric.name.data(), "default");
    });
    remember(daemon.hear());
}

TEST_F(NetworkTest, AnIdleDaemonYieldsToAnotherUser) {
    Wire daemon;
    run([&] { daemon.say(status().daemon_pid); });
    const auto first = daemon.hear();
    remember(first);
    EXPECT_TRUE(is_running(static_cast<pid_t>(first)));
    run([&] {
        become(kNobody);
        const Time begin = now();
        EXPECT_TRUE(hello().fabric.wire_available) << hello().fabric.note.data();
        EXPECT_STREQ(hello().fabric.note.data(), "") << "of the time when the port was still taken";
        EXPECT_LT(now() - begin, kNoHang);
        daemon.say(status().daemon_pid);
        EXPECT_EQ(open_device().queue.udp_port, 4791);
    });
    remember(daemon.hear());
    EXPECT_TRUE(eventually([&] { return !is_running(static_cast<pid_t>(first)); }));
    // And back again.
    run([&] {
        EXPECT_TRUE(hello().fabric.wire_available) << hello().fabric.note.data();
        daemon.say(status().daemon_pid);
    });
    remember(daemon.hear());
}

TEST_F(NetworkTest, TheSecondUserGetsAFabricWithoutTheWire) {
    Wire daemon, ready, finish;
    start([&] {
        daemon.say(status().daemon_pid);
        EXPECT_EQ(open_device().queue.udp_port, 4791);
        ready.say(1);
        finish.hear();
    });
    remember(daemon.hear());
    ready.hear();
    run([&] {
        become(kNobody);
        daemon.say(status().daemon_pid);
        EXPECT_FALSE(hello().fabric.wire_available);
        EXPECT_NE(std::strstr(hello().fabric.note.data(), "taken by user 0's verbenad"), nullptr)
            << hello().fabric.note.data();
        EXPECT_NE(open_device().queue.udp_port, 4791);
    });
    remember(daemon.hear());
    finish.say(1);
}

TEST_F(NetworkTest, AServiceServesEveryUser) {
    const pid_t service = fork();
    if (service == 0) {
        execl(VERBENAD, "verbenad", "--service", nullptr);
        _exit(127);
    }
    programs_.push_back(service);
    EXPECT_TRUE(eventually([] {
        const int fd = host::connect_to(host::service_address());
        if (fd >= 0) close(fd);
        return fd >= 0;
    }));
    for (uid_t user : {uid_t{0}, kNobody, uid_t{1}})
        run([&] {
            become(user);
            EXPECT_EQ(static_cast<pid_t>(status().daemon_pid), service);
            EXPECT_EQ(open_device().queue.udp_port, 4791);
            EXPECT_TRUE(hello().fabric.wire_available);
        });
    EXPECT_TRUE(is_running(service));
}

// Anybody can bind the service's name; only root's is believed.
TEST_F(NetworkTest, AFalseServiceIsIgnored) {
    Wire ready, daemon;
    start([&] {
        become(kNobody);
        EXPECT_GE(host::listen_on(host::service_address(), 8), 0);
        ready.say(1);
        pause();
    });
    ready.hear();
    run([&] { daemon.say(status().daemon_pid); });
    remember(daemon.hear());
}

// Nor waited for, if it takes no connection; and likewise whoever says that it has the port.
TEST_F(NetworkTest, NobodyWaitsForANameThatAnotherUserTook) {
    Wire ready, daemon;
    start([&] {
        become(kNobody);
        constexpr std::uint16_t kPort = 4791;
        EXPECT_GE(link::open_lone_socket(kPort), 0);
        for (const std::string& name : {host::service_address(), host::port_address(kPort)}) {
            EXPECT_GE(host::listen_on(name, 0), 0);
            EXPECT_GE(host::connect_to(name), 0);
        }
        ready.say(1);
        pause();
    });
    ready.hear();
    run([&] {
        daemon.say(status().daemon_pid);
        EXPECT_FALSE(hello().fabric.wire_available);
    });
    remember(daemon.hear());
}

// Nor does a program talk to another user who took the name of its own daemon.
TEST_F(NetworkTest, AFalseDaemonIsRefused) {
    Wire ready;
    start([&] {
        const std::string name = host::daemon_address(geteuid(), host::kDefaultFabric);
        become(kNobody);
        EXPECT_GE(host::listen_on(name, 8), 0);
        ready.say(1);
        pause();
    });
    ready.hear();
    run([] {
        EXPECT_EQ(host::devices(), nullptr);
        EXPECT_EQ(errno, EACCES);
        EXPECT_NE(std::strstr(last_reason(), "belongs to user 65534"), nullptr) << last_reason();
    });
}

// A socket that belongs to no process: soft-RoCE's, or as here a tunnel's.
TEST_F(NetworkTest, APortTakenByTheKernelIsSaidSo) {
    if (std::system(
            "ip link add vx0 type vxlan id 7 dstport 4791 dev lo 2>/dev/null && ip link set vx0 up") != 0)
        GTEST_SKIP() << "this kernel has no vxlan";
    Wire daemon;
    run([&] {
        const Time begin = now();
        daemon.say(status().daemon_pid);
        EXPECT_LT(now() - begin, kNoHang);
        EXPECT_FALSE(hello().fabric.wire_available);
        EXPECT_NE(std::strstr(hello().fabric.note.data(), "taken by the kernel"), nullptr)
            << hello().fabric.note.data();
    });
    remember(daemon.hear());
}

TEST_F(NetworkTest, APortTakenBySomethingElseIsNamed) {
    Wire daemon;
    const int taken = link::open_lone_socket(4791);
    ASSERT_GE(taken, 0);
    run([&] {
        close(taken);  // the parent's is left
        daemon.say(status().daemon_pid);
        EXPECT_FALSE(hello().fabric.wire_available);
        const std::string note = hello().fabric.note.data();
        EXPECT_NE(note.find("(pid " + std::to_string(getppid()) + ")"), std::string::npos) << note;
        EXPECT_NE(open_device().queue.udp_port, 4791);
    });
    remember(daemon.hear());
    close(taken);
}

// Programs of a daemon that was killed still have sockets of the group; joining it would mix the two.
TEST_F(NetworkTest, ASuccessorWaitsForTheOldGroup) {
    for (const bool lets_go : {true, false}) {
        // However long a busy machine takes to let the old program close its socket.
        setenv("VERBENA_PORT_PATIENCE_MS", lets_go ? "30000" : "500", 1);
        Wire daemon, ready, finish;
        const pid_t old = start([&] {
            const Opened opened = open_device();
            EXPECT_EQ(opened.queue.udp_port, 4791);
            daemon.say(status().daemon_pid);
            ready.say(1);
            finish.hear();
            close(opened.fd);
        });
        const auto first = static_cast<pid_t>(daemon.hear());
        ready.hear();
        end_process(first);
        EXPECT_TRUE(eventually([&] { return !is_running(first); }));
        const pid_t next = start([&] {
            const host::HelloReply reply = hello();
            daemon.say(status().daemon_pid);
            EXPECT_EQ(reply.fabric.wire_available, lets_go) << reply.fabric.note.data();
            if (!lets_go) {
                EXPECT_NE(std::strstr(reply.fabric.note.data(), std::to_string(old).c_str()), nullptr)
                    << reply.fabric.note.data();
            }
        });
        usleep(50'000);
        if (lets_go) finish.say(1);
        EXPECT_EQ(wait_for(next), 0);
        const auto second = static_cast<pid_t>(daemon.hear());
        if (!lets_go) finish.say(1);
        EXPECT_EQ(wait_for(old), 0);
        end_process(second);
        EXPECT_TRUE(eventually([&] { return !is_running(second); }));
    }
}

// As after a bonding failover: who is bound to the interface hears of it.
TEST_F(NetworkTest, AnotherHardwareAddressIsAnEvent) {
    Wire daemon;
    shell("ip link add v0 address 02:11:22:33:44:55 type veth peer name v1 && ip link set v1 up");
    shell("ip addr add 10.1.0.1/24 dev v0 && ip link set v0 up");
    run([&] {
        daemon.say(status().daemon_pid);
        EXPECT_TRUE(eventually([] { return devices_by_netdev().count("v0") == 1; }));
        Channel channel;
        host::BindRequest bind;
        bind.id = channel.create_id();
        bind.local = endpoint("10.1.0.1", 0);
        ask<cm::IdInfo>(host::Command::bind, bind);
        shell("ip link set v0 address 02:11:22:33:44:66");
        EXPECT_EQ(channel.expect(cm::EventType::addr_change).id, bind.id);
    });
    remember(daemon.hear());
}

TEST_F(NetworkTest, DevicesFollowTheInterfaces) {
    const bool ipv6 = knows_ipv6();
    Wire daemon;
    shell("ip link add v0 address 02:11:22:33:44:55 type veth peer name v1 && ip link set v1 up");
    run([&] {
        daemon.say(status().daemon_pid);
        EXPECT_EQ(devices_by_netdev().size(),
                  1u);  // v0 is down, v1 has only an address that is not usable yet
        shell("ip addr add 10.1.0.1/24 dev v0");
        if (ipv6) shell("ip addr add fd01::1/64 dev v0 nodad");
        shell("ip link set v0 up");
        // The link-local address comes after its DAD, and the kernel tells of the carrier a moment later.
        EXPECT_TRUE(eventually([&] {
            const auto all = devices_by_netdev();
            const auto found = all.find("v0");
            return found != all.end() && (!ipv6 || found->second.gids[2].is_link_local()) &&
                   found->second.active;
        }));
        auto devices = devices_by_netdev();
        const host::Device v0 = devices["v0"];
        EXPECT_STREQ(v0.name.data(), "verbena_v0");
        EXPECT_EQ(v0.active_mtu, 3u);
        EXPECT_EQ(v0.mtu, 1500u);
        EXPECT_TRUE(v0.active);
        EXPECT_EQ(to_string(v0.gids[0]), "10.1.0.1");
        if (ipv6) {
            EXPECT_EQ(to_string(v0.gids[1]), "fd01::1");
            EXPECT_TRUE(v0.gids[2].is_link_local());
        }
        const std::uint8_t guid[8] = {0x00, 0x11, 0x22, 0xff, 0xfe, 0x33, 0x44, 0x55};
        EXPECT_EQ(std::memcmp(&v0.node_guid, guid, 8), 0);
        EXPECT_STREQ(devices["lo"].name.data(), "verbena_lo");
        EXPECT_EQ(devices["lo"].active_mtu, 5u);

        // While somebody is connected a removed address leaves a hole and nothing moves.
        shell("ip addr del 10.1.0.1/24 dev v0");
        EXPECT_TRUE(eventually([] { return !devices_by_netdev()["v0"].gid_valid[0]; }));
        EXPECT_EQ(to_string(devices_by_netdev()["v0"].gids[1]), ipv6 ? "fd01::1" : "::");
        shell("ip link set v0 down");
        EXPECT_TRUE(eventually([] { return !devices_by_netdev()["v0"].active; }));
        shell("ip link del v0");
        EXPECT_TRUE(eventually([] { return devices_by_netdev().count("v0") == 0; }));
    });
    remember(daemon.hear());
}

}  // namespace
}  // namespace verbena::daemon::testing
