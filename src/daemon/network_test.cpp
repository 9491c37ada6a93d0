// verbenad and the network: who gets the wire, which devices there are, how addresses are resolved. Each test
// makes a network namespace of its own; without root there is nothing to test here.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>

#include <cstdlib>
#include <map>

#include "daemon/testing.h"

namespace verbena::daemon::testing {
namespace {

constexpr uid_t kNobody = 65534;

void shell(const std::string& command) { EXPECT_EQ(std::system(command.c_str()), 0) << command; }

class NetworkTest : public FabricTest {
   protected:
    void SetUp() override {
        if (geteuid() != 0) GTEST_SKIP() << "needs root to make a network namespace";
        FabricTest::SetUp();
        unsetenv("VERBENA_FABRIC");
        setenv("VERBENA_IDLE_MS", "60000", 1);
        // The test process itself moves: each test has its own namespace, made anew.
        ASSERT_EQ(unshare(CLONE_NEWNET), 0);
        shell("ip link set lo up");
    }
    void TearDown() override {
        FabricTest::TearDown();
        for (std::uint32_t pid : daemons_) kill(static_cast<pid_t>(pid), SIGKILL);
    }

    static void become(uid_t user) { ASSERT_EQ(setresuid(user, user, user), 0); }

    struct Opened {
        int fd = -1;
        host::OpenQueueReply queue;
    };
    // Opens a device, as far as the daemon is concerned.
    static Opened open_device() {
        Opened opened;
        EXPECT_EQ(
            host::call(host::Command::open_queue, host::OpenQueueRequest{}, opened.queue, -1, &opened.fd), 0)
            << last_reason();
        return opened;
    }
    static host::HelloReply hello() {
        return ask<host::HelloReply>(host::Command::hello, host::HelloRequest{});
    }

    // Told by programs, so that none is left behind.
    void remember(std::int64_t daemon) { daemons_.push_back(static_cast<std::uint32_t>(daemon)); }

    std::vector<std::uint32_t> daemons_;
};

TEST_F(NetworkTest, TheDefaultFabricHasTheWire) {
    Wire daemon;
    run([&] {
        daemon.say(status().daemon_pid);
        EXPECT_EQ(open_device().queue.udp_port, 4791);
        EXPECT_TRUE(hello().wire_available);
        EXPECT_STREQ(hello().fabric.data(), "default");
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
        EXPECT_TRUE(hello().wire_available) << hello().wire_note.data();
        EXPECT_LT(now() - begin, kSecond);
        daemon.say(status().daemon_pid);
        EXPECT_EQ(open_device().queue.udp_port, 4791);
    });
    remember(daemon.hear());
    EXPECT_TRUE(eventually([&] { return !is_running(static_cast<pid_t>(first)); }));
    // And back again.
    run([&] {
        EXPECT_TRUE(hello().wire_available) << hello().wire_note.data();
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
        EXPECT_FALSE(hello().wire_available);
        EXPECT_NE(std::strstr(hello().wire_note.data(), "taken by user 0's verbenad"), nullptr)
            << hello().wire_note.data();
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
            EXPECT_TRUE(hello().wire_available);
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
        EXPECT_LT(now() - begin, kSecond);
        EXPECT_FALSE(hello().wire_available);
        EXPECT_NE(std::strstr(hello().wire_note.data(), "taken by the kernel"), nullptr)
            << hello().wire_note.data();
    });
    remember(daemon.hear());
}

TEST_F(NetworkTest, APortTakenBySomethingElseIsNamed) {
    Wire daemon;
    int taken = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(4791);
    ASSERT_EQ(bind(taken, static_cast<sockaddr*>(static_cast<void*>(&address)), sizeof address), 0);
    run([&] {
        close(taken);  // the parent's is left
        daemon.say(status().daemon_pid);
        EXPECT_FALSE(hello().wire_available);
        const std::string note = hello().wire_note.data();
        EXPECT_NE(note.find("(pid " + std::to_string(getppid()) + ")"), std::string::npos) << note;
        EXPECT_NE(open_device().queue.udp_port, 4791);
    });
    remember(daemon.hear());
    close(taken);
}

// Programs of a daemon that was killed still have sockets of the group; joining it would mix the two.
TEST_F(NetworkTest, ASuccessorWaitsForTheOldGroup) {
    for (const bool lets_go : {true, false}) {
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
        kill(first, SIGKILL);
        EXPECT_TRUE(eventually([&] { return !is_running(first); }));
        const pid_t next = start([&] {
            const host::HelloReply reply = hello();
            daemon.say(status().daemon_pid);
            EXPECT_EQ(reply.wire_available, lets_go) << reply.wire_note.data();
            if (!lets_go) {
                EXPECT_NE(std::strstr(reply.wire_note.data(), std::to_string(old).c_str()), nullptr)
                    << reply.wire_note.data();
            }
        });
        usleep(300'000);
        if (lets_go) finish.say(1);
        EXPECT_EQ(wait_for(next), 0);
        const auto second = static_cast<pid_t>(daemon.hear());
        if (!lets_go) finish.say(1);
        EXPECT_EQ(wait_for(old), 0);
        kill(second, SIGKILL);
        EXPECT_TRUE(eventually([&] { return !is_running(second); }));
    }
}

// The table that programs read, by netdev.
std::map<std::string, host::Device> devices_by_netdev() {
    std::map<std::string, host::Device> found;
    const host::DeviceTable* table = host::devices();
    host::Device device;
    for (unsigned slot = 0; table && slot < host::kMaxDevices; slot++)
        if (host::read_device(*table, slot, device)) found[device.netdev.data()] = device;
    return found;
}

TEST_F(NetworkTest, DevicesFollowTheInterfaces) {
    Wire daemon;
    shell("ip link add v0 address 02:11:22:33:44:55 type veth peer name v1 && ip link set v1 up");
    run([&] {
        daemon.say(status().daemon_pid);
        EXPECT_EQ(devices_by_netdev().size(),
                  1u);  // v0 is down, v1 has only an address that is not usable yet
        shell("ip addr add 10.1.0.1/24 dev v0 && ip addr add fd01::1/64 dev v0 nodad && ip link set v0 up");
        EXPECT_TRUE(eventually([] {
            const auto all = devices_by_netdev();
            const auto found = all.find("v0");
            return found != all.end() &&
                   found->second.gid_count == 3;  // the link-local one comes after its DAD
        }));
        auto devices = devices_by_netdev();
        const host::Device v0 = devices["v0"];
        EXPECT_STREQ(v0.name.data(), "verbena_v0");
        EXPECT_EQ(v0.active_mtu, 3u);
        EXPECT_EQ(v0.mtu, 1500u);
        EXPECT_TRUE(v0.active);
        EXPECT_EQ(to_string(v0.gids[0]), "10.1.0.1");
        EXPECT_EQ(to_string(v0.gids[1]), "fd01::1");
        EXPECT_TRUE(v0.gids[2].is_link_local());
        const std::uint8_t guid[8] = {0x00, 0x11, 0x22, 0xff, 0xfe, 0x33, 0x44, 0x55};
        EXPECT_EQ(std::memcmp(&v0.node_guid, guid, 8), 0);
        EXPECT_STREQ(devices["lo"].name.data(), "verbena_lo");
        EXPECT_EQ(devices["lo"].active_mtu, 5u);

        // While somebody is connected a removed address leaves a hole and nothing moves.
        shell("ip addr del 10.1.0.1/24 dev v0");
        EXPECT_TRUE(eventually([] { return !devices_by_netdev()["v0"].gid_valid[0]; }));
        EXPECT_EQ(to_string(devices_by_netdev()["v0"].gids[1]), "fd01::1");
        shell("ip link set v0 down");
        EXPECT_TRUE(eventually([] { return !devices_by_netdev()["v0"].active; }));
        shell("ip link del v0");
        EXPECT_TRUE(eventually([] { return devices_by_netdev().count("v0") == 0; }));
    });
    remember(daemon.hear());
}

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
                "ip link set lo up; ip addr add 10.1.0.2/24 dev far0; ip addr add fd01::2/64 dev far0 nodad");
            shell("ip link set far0 mtu 9000 up");
            made_.say(2);
            far_program();
        });
        made_.hear();
        shell("ip link add near0 type veth peer name far0 netns " + std::to_string(far_));
        shell("ip addr add 10.1.0.1/24 dev near0; ip addr add fd01::1/64 dev near0 nodad");
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

host::ResolveAddressRequest resolve_request(Channel& channel, const cm::Endpoint& remote) {
    host::ResolveAddressRequest request;
    request.id = channel.create_id();
    request.timeout_ms = 2000;
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
            const host::ResolveAddressRequest address = resolve_request(channel, remote);
            ask<host::Empty>(host::Command::resolve_address, address);
            channel.expect(cm::EventType::addr_resolved);
            host::IdRequest id;
            id.id = address.id;
            const cm::IdInfo info = ask<cm::IdInfo>(host::Command::query, id);
            EXPECT_EQ(info.route.path_mtu, 5);
            EXPECT_EQ(info.route.destination_gid, remote.address);
            EXPECT_EQ(info.route.interface_index, devices_by_netdev()["near0"].interface_index);
            host::ResolveRouteRequest route;
            route.id = address.id;
            route.timeout_ms = 2000;
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
        // On the link, but nobody answers: the kernel gives up after three seconds, the program after two.
        ask<host::Empty>(host::Command::resolve_address, resolve_request(channel, endpoint("10.1.0.77", 1)));
        const cm::Event event = channel.next();
        EXPECT_EQ(event.type, cm::EventType::addr_error);
        EXPECT_TRUE(event.status == -ETIMEDOUT || event.status == -EHOSTUNREACH) << event.status;
        // No route at all.
        host::Empty empty;
        const int error = host::call(host::Command::resolve_address,
                                     resolve_request(channel, endpoint("203.0.113.1", 1)), empty);
        if (error == 0) {
            EXPECT_EQ(channel.next().status, -ENETUNREACH);
        } else {
            EXPECT_EQ(error, ENETUNREACH);
        }
    });
    remember(daemon.hear());
}

}  // namespace
}  // namespace verbena::daemon::testing
