// Asynchronous events of a device, import of devices and protection domains, and the copies between the
// kernel's structures and the library's.
#include <fcntl.h>
#include <infiniband/sa.h>
#include <net/if.h>
#include <netinet/in.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/process_testing.h"
#include "harness.h"
#include "host/client.h"
#include "leaves_behind.h"

extern "C" {
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec* to, struct ib_user_path_rec* from);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec* to, struct ibv_sa_path_rec* from);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr* to, struct ib_uverbs_qp_attr* from);
int ibv_query_port_speed(struct ibv_context* context, uint32_t port, uint64_t* speed);
}

namespace verbena::verbs_test {
namespace {

// The next event of that type, acknowledged; others are passed over.
bool wait_for(ibv_context* context, ibv_event_type type) {
    ibv_async_event event;
    do {
        if (!next_event(context, event)) return false;
    } while (event.event_type != type);
    return true;
}

TEST(Import, ADeviceAndItsProtectionDomain) {
    Pair pair;
    ibv_context* imported = ibv_import_device(dup(pair.a.context->cmd_fd));
    ASSERT_NE(imported, nullptr) << std::strerror(errno);
    EXPECT_STREQ(ibv_get_device_name(imported->device), ibv_get_device_name(pair.a.context->device));
    ibv_pd* pd = ibv_import_pd(imported, pair.a.pd->handle);
    ASSERT_NE(pd, nullptr) << std::strerror(errno);
    EXPECT_EQ(pd->context, imported);
    EXPECT_EQ(pd->handle, pair.a.pd->handle);
    {
        // Memory of the imported domain for a queue pair of the original.
        Memory local(pd, 64), remote(pair.b.pd, 64);
        local.fill(5);
        ibv_sge sge = local.sge(0, 64);
        ASSERT_EQ(Request(1, IBV_WR_RDMA_WRITE, &sge, 1).to(remote).post(pair.a.qp), 0);
        success(pair.a.send_cq);
        EXPECT_TRUE(remote.holds(5, 64));
        EXPECT_TRUE(refused(EBUSY, [&] { return ibv_dealloc_pd(pd); })) << "it counts with the original";
    }
    ibv_unimport_pd(pd);
    EXPECT_TRUE(refused_null(ENOENT, [&] { return ibv_import_pd(imported, 0xfffffff); }));
    EXPECT_EQ(ibv_close_device(imported), 0);
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    EXPECT_TRUE(refused_null(EINVAL, [&] { return ibv_import_device(ends[0]); }));
    EXPECT_TRUE(refused_null(EINVAL, [&] { return ibv_import_device(-1); }));
    close(ends[0]);
    close(ends[1]);
}

// A domain's number and count are those of the original, whichever handle goes first (ibv_unimport_pd(3)).
TEST(Import, AProtectionDomainGoesBeforeWhatWasMadeInIt) {
    Side side({.connect = false});
    ibv_context* imported = ibv_import_device(dup(side.context->cmd_fd));
    ASSERT_NE(imported, nullptr) << std::strerror(errno);
    ibv_pd* original = ibv_alloc_pd(side.context);
    ibv_pd* pd = ibv_import_pd(imported, original->handle);
    ASSERT_NE(pd, nullptr) << std::strerror(errno);
    auto memory = std::make_unique<Memory>(pd, 64);
    ibv_mw* window = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
    ibv_srq_init_attr wanted{nullptr, {4, 1, 0}};
    ibv_srq* srq = ibv_create_srq(pd, &wanted);
    ibv_ah* address = address_handle(pd, side.gid());
    ASSERT_TRUE(window && srq && address);
    ibv_unimport_pd(pd);
    ibv_pd* other = ibv_alloc_pd(side.context);  // in the memory of that one, if it has been freed
    EXPECT_TRUE(refused(EBUSY, [&] { return ibv_dealloc_pd(original); }));
    ibv_mr* again = ibv_import_mr(original, memory->mr->handle);
    ASSERT_NE(again, nullptr) << std::strerror(errno);
    ibv_unimport_mr(again);
    memory.reset();
    EXPECT_EQ(ibv_dealloc_mw(window), 0);
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
    EXPECT_TRUE(refused(EBUSY, [&] { return ibv_dealloc_pd(original); }));
    EXPECT_EQ(ibv_destroy_ah(address), 0);
    EXPECT_EQ(ibv_dealloc_pd(original), 0);
    EXPECT_EQ(ibv_dealloc_pd(other), 0);
    EXPECT_EQ(ibv_close_device(imported), 0);
}

// As a kernel keeps what belongs to a file while one of its descriptors is open.
TEST(Import, WhatAContextMadeLivesUntilTheLastOfItsFileIsClosed) {
    LeavesBehind on_purpose;
    std::vector<std::uint64_t> words(8);
    ibv_context* original = open_loopback();
    ibv_context* imported = ibv_import_device(dup(original->cmd_fd));
    ASSERT_NE(imported, nullptr) << std::strerror(errno);
    ibv_pd* pd = ibv_alloc_pd(original);
    const std::uint32_t number = pd->handle;
    ibv_mr* mr = ibv_reg_mr(pd, words.data(), 64, kAllAccess | IBV_ACCESS_ON_DEMAND);
    ASSERT_TRUE(mr);
    const std::uint32_t handle = mr->handle;
    ibv_sge all{reinterpret_cast<std::uintptr_t>(words.data()), 64, mr->lkey};
    const auto look = [&](ibv_pd* in) {
        return ibv_advise_mr(in, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &all, 1);
    };
    const int own_file = original->cmd_fd;
    EXPECT_EQ(ibv_close_device(original), 0);
    EXPECT_EQ(fcntl(own_file, F_GETFD), -1) << "the descriptor goes with its context";
    ibv_pd* same = ibv_import_pd(imported, number);
    ASSERT_NE(same, nullptr) << std::strerror(errno);
    EXPECT_EQ(look(same), 0);
    ibv_mr* again = ibv_import_mr(same, handle);
    ASSERT_NE(again, nullptr) << std::strerror(errno);
    EXPECT_EQ(again->length, 64u);
    // An import of the import is of the same file.
    ibv_context* third = ibv_import_device(dup(imported->cmd_fd));
    ASSERT_NE(third, nullptr) << std::strerror(errno);
    EXPECT_EQ(ibv_close_device(imported), 0);
    ibv_pd* last = ibv_import_pd(third, number);
    EXPECT_EQ(look(last), 0);
    EXPECT_EQ(ibv_close_device(third), 0);
    ibv_context* other = open_loopback();
    ibv_pd* of_other = ibv_import_pd(other, number);
    ASSERT_NE(of_other, nullptr) << std::strerror(errno);
    EXPECT_TRUE(refused(ENOENT, [&] { return look(of_other); }));
    ibv_unimport_pd(of_other);
    EXPECT_EQ(ibv_close_device(other), 0);
}

TEST(Import, InAnotherProcess) {
    Side side;
    const std::uint32_t handle = side.pd->handle;
    const int fd = dup(side.context->cmd_fd);
    const pid_t child = fork();
    if (child == 0) {
        ibv_context* imported = ibv_import_device(fd);
        if (!imported) _exit(1);
        errno = 0;
        if (ibv_import_pd(imported, handle) || errno != EOPNOTSUPP) _exit(2);
        ibv_pd* own = ibv_alloc_pd(imported);
        if (!own || ibv_dealloc_pd(own) != 0 || ibv_close_device(imported) != 0) _exit(3);
        _exit(0);
    }
    close(fd);
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

// A network of its own, for which a user without privileges must be root of a namespace of users.
bool leave_network() {
    if (unshare(CLONE_NEWNET) == 0) return true;
    const uid_t user = geteuid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
    // Without a number there programs would not know each other for the same user's.
    std::ofstream map("/proc/self/uid_map");
    map << "0 " << user << " 1" << std::flush;
    return map.good();
}

// Runs in a child with a network of its own, so that nothing of the host changes. Skips where that may not be
// made.
void in_own_network(const std::function<void()>& body) {
    constexpr int kMayNot = 77;
    const pid_t child = fork();
    if (child == 0) {
        if (!leave_network()) _exit(kMayNot);
        setenv("VERBENA_FABRIC", ("test-verbs-net-" + std::to_string(getpid())).c_str(), 1);
        body();
        _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == kMayNot) GTEST_SKIP() << "no network of its own";
    EXPECT_EQ(status, 0);
}

bool set_up(const char* name, bool up) {
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ifreq request{};
    std::strncpy(request.ifr_name, name, sizeof request.ifr_name - 1);
    int result = ioctl(fd, SIOCGIFFLAGS, &request);
    const int flags = up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP;
    request.ifr_flags = static_cast<short>(flags);
    if (result == 0) result = ioctl(fd, SIOCSIFFLAGS, &request);
    close(fd);
    return result == 0;
}

// 10.77.0.1 on lo:77; it goes when that is set down.
bool add_address() {
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ifreq request{};
    std::strcpy(request.ifr_name, "lo:77");
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htobe32(0x0a4d0001);
    std::memcpy(&request.ifr_addr, &address, sizeof address);
    const int result = ioctl(fd, SIOCSIFADDR, &request);
    close(fd);
    return result == 0;
}

TEST(Addresses, ComeAndGo) {
    in_own_network([] {
        ASSERT_TRUE(set_up("lo", true));
        ibv_context* context = open_loopback();
        EXPECT_FALSE(readable(context->async_fd));
        auto holds_it = [&] {
            ibv_gid_entry entries[64];
            const ssize_t count = ibv_query_gid_table(context, entries, 64, 0);
            for (ssize_t i = 0; i < count; i++)
                if (entries[i].gid.raw[12] == 10 && entries[i].gid.raw[13] == 77) return true;
            return false;
        };
        ASSERT_TRUE(add_address());
        EXPECT_TRUE(wait_for(context, IBV_EVENT_GID_CHANGE));
        EXPECT_TRUE(holds_it()) << "the event comes after the change";
        ASSERT_TRUE(set_up("lo:77", false));
        EXPECT_TRUE(wait_for(context, IBV_EVENT_GID_CHANGE));
        EXPECT_FALSE(holds_it());
        EXPECT_EQ(ibv_close_device(context), 0);
    });
}

TEST(Addresses, ThePortGoesDownAndUp) {
    in_own_network([] {
        ASSERT_TRUE(set_up("lo", true));
        ibv_context* context = open_loopback();
        auto state = [&] {
            ibv_port_attr attributes{};
            EXPECT_EQ(ibv_query_port(context, 1, &attributes), 0);
            return attributes.state;
        };
        EXPECT_EQ(state(), IBV_PORT_ACTIVE);
        ASSERT_TRUE(set_up("lo", false));
        EXPECT_TRUE(wait_for(context, IBV_EVENT_PORT_ERR));
        EXPECT_EQ(state(), IBV_PORT_DOWN);
        ASSERT_TRUE(set_up("lo", true));
        EXPECT_TRUE(wait_for(context, IBV_EVENT_PORT_ACTIVE));
        EXPECT_EQ(state(), IBV_PORT_ACTIVE);
        EXPECT_EQ(ibv_close_device(context), 0);
    });
}

// Of the device verbena_vb0.
bool add_interface() {
    return std::system(
               "ip link add vb0 type veth peer name vb1 2>/dev/null && ip addr add 10.79.0.1/24 dev vb0 &&"
               " ip link set vb0 up && ip link set vb1 up") == 0;
}

// For who takes all active ports: by loopback no other host is reached, and this one is by any device.
TEST(Loopback, IsDownForWhoHasAnotherDevice) {
    in_own_network([] {
        if (!set_up("lo", true) || !add_interface()) return;  // no iproute2 here, or not root
        ibv_context* const loopback = open_loopback();
        const auto state = [](ibv_context* context) {
            ibv_port_attr port{};
            EXPECT_EQ(ibv_query_port(context, 1, &port), 0);
            return port.state;
        };
        EXPECT_EQ(state(loopback), IBV_PORT_ACTIVE);
        ibv_context* const another = open_device("verbena_vb0");
        ASSERT_TRUE(another);
        EXPECT_TRUE(wait_until([&] { return state(another) == IBV_PORT_ACTIVE; })) << "with its carrier";
        EXPECT_EQ(state(loopback), IBV_PORT_DOWN);
        setenv("VERBENA_DEVICES", "*", 1);
        EXPECT_EQ(state(loopback), IBV_PORT_ACTIVE) << "as the user wants it";
        unsetenv("VERBENA_DEVICES");
        EXPECT_EQ(ibv_close_device(another), 0);
        EXPECT_EQ(state(loopback), IBV_PORT_ACTIVE);
        EXPECT_EQ(ibv_close_device(loopback), 0);
    });
}

// The interface goes, and the device with it: the queue pairs fail, the calls say why, and everything can be
// given back.
TEST(Removal, OfTheInterface) {
    in_own_network([] {
        if (!add_interface()) return;  // no iproute2 here, or not root
        ibv_context* context = open_device("verbena_vb0");
        ASSERT_TRUE(context);
        Side side(Options{.mtu = IBV_MTU_1024, .connect = false}, context);
        ibv_gid gid;
        ASSERT_EQ(ibv_query_gid(context, 1, 0, &gid), 0);
        ASSERT_EQ(side.to_init(), 0);
        ASSERT_EQ(side.to_rtr(gid, side.qp->qp_num), 0);
        ASSERT_EQ(side.post_receive(1, nullptr, 0), 0);
        ASSERT_EQ(std::system("ip link del vb0"), 0);
        EXPECT_TRUE(wait_for(context, IBV_EVENT_DEVICE_FATAL));
        EXPECT_FALSE(readable(context->async_fd)) << "once, and no other";
        EXPECT_EQ(side.state(), IBV_QPS_ERR);
        EXPECT_EQ(completion(side.receive_cq).status, IBV_WC_WR_FLUSH_ERR);
        ibv_port_attr port{};
        EXPECT_EQ(ibv_query_port(context, 1, &port), 0);
        EXPECT_EQ(port.state, IBV_PORT_DOWN);
        EXPECT_GE(port.active_mtu, IBV_MTU_256) << "programs reckon with it";
        EXPECT_TRUE(refused_null(EIO, [&] { return ibv_alloc_pd(context); }));
        EXPECT_TRUE(refused_null(EIO, [&] { return ibv_create_cq(context, 1, nullptr, nullptr, 0); }));
        EXPECT_TRUE(refused_null(ENODEV, [&] { return ibv_open_device(context->device); }));
        int count = 0;
        ibv_device** list = ibv_get_device_list(&count);
        for (int i = 0; i < count; i++) EXPECT_STRNE(ibv_get_device_name(list[i]), "verbena_vb0");
        ibv_free_device_list(list);
    });
}

// Also without any queue pair.
TEST(DaemonDeath, IsAFatalErrorOfTheDevice) {
    ibv_context* context = open_loopback();
    host::StatusReply status;
    ASSERT_EQ(host::call(host::Command::status, host::Empty{}, status), 0);
    end_process(static_cast<pid_t>(status.daemon_pid));
    EXPECT_TRUE(wait_for(context, IBV_EVENT_DEVICE_FATAL));
    EXPECT_EQ(ibv_alloc_pd(context), nullptr);
    EXPECT_FALSE(readable(context->async_fd)) << "once";
    EXPECT_EQ(ibv_close_device(context), 0);
    context = open_loopback();
    ibv_pd* pd = ibv_alloc_pd(context);
    EXPECT_NE(pd, nullptr) << "a new daemon";
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(Port, SpeedInHundredsOfMegabits) {
    Side side;
    std::uint64_t speed = 0;
    ASSERT_EQ(ibv_query_port_speed(side.context, 1, &speed), 0);
    EXPECT_EQ(speed, 100u) << "loopback has none of its own and counts as 10 Gbit/s";
    EXPECT_TRUE(refused(EINVAL, [&] { return ibv_query_port_speed(side.context, 2, &speed); }));
}

TEST(Marshal, PathRecordsThereAndBack) {
    ib_user_path_rec from{};
    auto* bytes = static_cast<std::uint8_t*>(static_cast<void*>(&from));
    for (std::size_t i = 0; i < sizeof from; i++) bytes[i] = static_cast<std::uint8_t>(i + 1);
    from.raw_traffic = from.reversible = 1;
    from.mtu = 3;
    ibv_sa_path_rec record{};
    ibv_copy_path_rec_from_kern(&record, &from);
    EXPECT_EQ(record.mtu, 3);
    EXPECT_EQ(record.hop_limit, from.hop_limit);
    EXPECT_EQ(std::memcmp(record.sgid.raw, from.sgid, 16), 0);
    ib_user_path_rec back{};
    ibv_copy_path_rec_to_kern(&back, &record);
    EXPECT_EQ(std::memcmp(&from, &back, offsetof(ib_user_path_rec, preference) + 1), 0);
}

TEST(Marshal, QueuePairAttributes) {
    ib_uverbs_qp_attr from{};
    from.qp_state = IBV_QPS_RTR;
    from.path_mtu = IBV_MTU_2048;
    from.dest_qp_num = 0x123456;
    from.max_recv_sge = 7;
    from.ah_attr.is_global = 1;
    from.ah_attr.grh.dgid[15] = 9;
    from.ah_attr.grh.flow_label = 0xabcde;
    from.alt_ah_attr.sl = 3;
    from.rnr_retry = 6;
    from.alt_timeout = 14;
    ibv_qp_attr to{};
    ibv_copy_qp_attr_from_kern(&to, &from);
    EXPECT_EQ(to.qp_state, IBV_QPS_RTR);
    EXPECT_EQ(to.path_mtu, IBV_MTU_2048);
    EXPECT_EQ(to.dest_qp_num, 0x123456u);
    EXPECT_EQ(to.cap.max_recv_sge, 7u);
    EXPECT_EQ(to.ah_attr.is_global, 1);
    EXPECT_EQ(to.ah_attr.grh.dgid.raw[15], 9);
    EXPECT_EQ(to.ah_attr.grh.flow_label, 0xabcdeu);
    EXPECT_EQ(to.alt_ah_attr.sl, 3);
    EXPECT_EQ(to.rnr_retry, 6);
    EXPECT_EQ(to.alt_timeout, 14);
}

}  // namespace
}  // namespace verbena::verbs_test
