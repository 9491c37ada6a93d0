// Ends that are not asked for: processes that are killed, forks, the daemon's death; and several threads at
// once. Each test runs in processes of its own, forked before the library is used.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/process_testing.h"
#include "fabric.h"
#include "host/client.h"

namespace verbena::rdmacm_test {
namespace {

using Clock = std::chrono::steady_clock;

// Runs `body` in a child process; its exit status is 0 if no expectation failed there.
pid_t start(const std::function<void()>& body) {
    std::fflush(nullptr);
    pid_t pid = fork();
    if (pid != 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody is left behind by a test that fails early
    body();
    std::fflush(nullptr);
    _exit(testing::Test::HasFailure() ? 1 : 0);
}

void expect_success(pid_t pid) {
    int status = -1;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

void isolated(const std::function<void()>& body) { expect_success(start(body)); }

struct Pipe {
    Pipe() { EXPECT_EQ(pipe(ends), 0); }
    void put(std::uint16_t value) { EXPECT_EQ(write(ends[1], &value, sizeof value), ssize_t{sizeof value}); }
    std::uint16_t get() {
        std::uint16_t value = 0;
        pollfd entry{ends[0], POLLIN, 0};
        EXPECT_EQ(poll(&entry, 1, kPatienceMs), 1);
        if (!entry.revents) return 0;
        EXPECT_EQ(read(ends[0], &value, sizeof value), ssize_t{sizeof value});
        return value;
    }
    int ends[2];
};

pid_t daemon_pid() {
    host::StatusReply status;
    EXPECT_EQ(host::call(host::Command::status, host::Empty{}, status), 0);
    return static_cast<pid_t>(status.daemon_pid);
}

TEST(Lifetime, KilledClientDisconnectsWithinASecond) {
    isolated([] {
        Pipe told, go;
        // The client is forked first, so that it inherits nothing of the server's library state.
        pid_t client = start([&] {
            Side side;
            rdma_cm_id* id = side.resolved("127.0.0.1", go.get());
            create_qp(id);
            auto parameters = parameters_for(0);
            EXPECT_EQ(outcome(rdma_connect(id, &parameters)), 0);
            side.expect(RDMA_CM_EVENT_ESTABLISHED);
            told.put(1);
            for (;;) pause();
        });
        Side server;
        std::uint16_t port = 0;
        server.listener("127.0.0.1", port);
        go.put(port);
        rdma_cm_id* passive = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
        ASSERT_TRUE(passive);
        create_qp(passive);
        auto parameters = parameters_for(0);
        ASSERT_EQ(outcome(rdma_accept(passive, &parameters)), 0);
        server.expect(RDMA_CM_EVENT_ESTABLISHED);
        told.get();
        auto killed = Clock::now();
        end_process(client);
        server.expect(RDMA_CM_EVENT_DISCONNECTED);
        EXPECT_LT(Clock::now() - killed, std::chrono::seconds(1));
        waitpid(client, nullptr, 0);
    });
}

TEST(Lifetime, KilledServerDisconnectsAndFreesItsPort) {
    isolated([] {
        Pipe ports, told;
        pid_t server = start([&] {
            Side side;
            std::uint16_t port = 0;
            side.listener("127.0.0.1", port);
            ports.put(port);
            rdma_cm_id* passive = side.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
            create_qp(passive);
            auto parameters = parameters_for(0);
            EXPECT_EQ(outcome(rdma_accept(passive, &parameters)), 0);
            side.expect(RDMA_CM_EVENT_ESTABLISHED);
            told.put(1);
            for (;;) pause();
        });
        std::uint16_t port = ports.get();
        Side client;
        rdma_cm_id* id = client.resolved("127.0.0.1", port);
        create_qp(id);
        auto parameters = parameters_for(0);
        ASSERT_EQ(outcome(rdma_connect(id, &parameters)), 0);
        client.expect(RDMA_CM_EVENT_ESTABLISHED);
        told.get();
        end_process(server);
        client.expect(RDMA_CM_EVENT_DISCONNECTED);
        waitpid(server, nullptr, 0);
        EXPECT_EQ(outcome(rdma_bind_addr(client.id(), Address("127.0.0.1", port).get())), 0);
    });
}

// Neither side repeats anything (retry_count and rnr_retry_count 0), and one gets no processor for 300 ms.
TEST(Lifetime, AZeroedConnParamSurvivesAPeerThatStandsStill) {
    isolated([] {
        Pipe ports, told, done;
        pid_t server = start([&] {
            Side side;
            std::uint16_t port = 0;
            side.listener("127.0.0.1", port);
            ports.put(port);
            rdma_cm_id* passive = side.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
            ASSERT_TRUE(passive);
            create_qp(passive);
            char buffer[64];
            ibv_mr* region = rdma_reg_msgs(passive, buffer, sizeof buffer);
            ASSERT_EQ(rdma_post_recv(passive, nullptr, buffer, sizeof buffer, region), 0);
            rdma_conn_param nothing{};
            ASSERT_EQ(outcome(rdma_accept(passive, &nothing)), 0);
            side.expect(RDMA_CM_EVENT_ESTABLISHED);
            told.put(1);
            done.get();
            rdma_dereg_mr(region);
        });
        const std::uint16_t port = ports.get();
        Side client;
        rdma_cm_id* id = client.resolved("127.0.0.1", port);
        create_qp(id);
        rdma_conn_param nothing{};
        ASSERT_EQ(outcome(rdma_connect(id, &nothing)), 0);
        client.expect(RDMA_CM_EVENT_ESTABLISHED);
        told.get();
        signal_process(server, SIGSTOP);
        char buffer[64] = "there?";
        ibv_mr* region = rdma_reg_msgs(id, buffer, sizeof buffer);
        ASSERT_EQ(rdma_post_send(id, nullptr, buffer, sizeof buffer, region, IBV_SEND_SIGNALED), 0);
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        signal_process(server, SIGCONT);
        ibv_wc completion{};
        EXPECT_EQ(rdma_get_send_comp(id, &completion), 1);
        EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
        rdma_dereg_mr(region);
        done.put(1);
        expect_success(server);
    });
}

TEST(Lifetime, ForkedChildConnectsToItsParent) {
    isolated([] {
        Side server;
        std::uint16_t port = 0;
        rdma_cm_id* listener = server.listener("127.0.0.1", port);
        Pipe told;
        pid_t child = start([&] {
            // What was inherited is refused, and refusing it disturbs nothing of the parent's.
            EXPECT_EQ(outcome(rdma_listen(listener, 0)), EINVAL);
            EXPECT_EQ(outcome(rdma_destroy_id(listener)), EINVAL);
            Side client;
            rdma_cm_id* id = client.resolved("127.0.0.1", port);
            create_qp(id);
            auto parameters = parameters_for(0);
            EXPECT_EQ(outcome(rdma_connect(id, &parameters)), 0);
            client.expect(RDMA_CM_EVENT_ESTABLISHED);
            EXPECT_EQ(outcome(rdma_disconnect(id)), 0);
            client.expect(RDMA_CM_EVENT_DISCONNECTED);
        });
        rdma_cm_id* passive = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
        ASSERT_TRUE(passive);
        create_qp(passive);
        auto parameters = parameters_for(0);
        ASSERT_EQ(outcome(rdma_accept(passive, &parameters)), 0);
        server.expect(RDMA_CM_EVENT_ESTABLISHED);
        server.expect(RDMA_CM_EVENT_DISCONNECTED);
        EXPECT_EQ(outcome(rdma_disconnect(passive)), 0);
        expect_success(child);
    });
}

TEST(Lifetime, DaemonsDeathIsToldAndANewOneServesNewIds) {
    isolated([] {
        std::string fabric = "test-rdmacm-death-" + std::to_string(getpid());
        setenv("VERBENA_FABRIC", fabric.c_str(), 1);
        {
            Pair pair;
            ASSERT_TRUE(pair.passive);
            Side idle;
            rdma_cm_id* waiting = idle.id();
            const ibv_context* old_context = pair.active->verbs;
            pid_t daemon = daemon_pid();
            ASSERT_GT(daemon, 0);
            ASSERT_NE(daemon, getpid());
            end_process(daemon);
            // Every id is told once, on its own channel; then the channel is at its end.
            EXPECT_EQ(idle.expect(RDMA_CM_EVENT_DEVICE_REMOVAL).id, waiting);
            EXPECT_EQ(pair.client.expect(RDMA_CM_EVENT_DEVICE_REMOVAL).id, pair.active);
            std::set<rdma_cm_id*> told;
            for (int i = 0; i < 2; i++) told.insert(pair.server.expect(RDMA_CM_EVENT_DEVICE_REMOVAL).id);
            EXPECT_EQ(told, (std::set<rdma_cm_id*>{pair.listener, pair.passive}));
            rdma_cm_event* event = nullptr;
            EXPECT_EQ(outcome(rdma_get_cm_event(idle.channel, &event)), EIO);
            EXPECT_EQ(outcome(rdma_disconnect(pair.active)), EIO);
            EXPECT_EQ(outcome(rdma_listen(waiting, 0)), EIO);
            rdma_cm_id* more = nullptr;
            EXPECT_EQ(outcome(rdma_create_id(idle.channel, &more, nullptr, RDMA_PS_TCP)), EIO);
            // A new channel finds, or starts, the next daemon.
            auto before = Clock::now();
            Pair again;
            EXPECT_LT(Clock::now() - before, std::chrono::seconds(2));
            ASSERT_TRUE(again.passive);
            EXPECT_NE(again.active->verbs, old_context);
            EXPECT_NE(daemon_pid(), daemon);
        }
    });
}

// It prints nevertheless.
TEST(Lifetime, AChannelIsNotTheOutputOfWhoStartedWithoutOne) {
    isolated([] {
        const int output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        close(STDOUT_FILENO);
        rdma_event_channel* const channel = rdma_create_event_channel();
        const bool closed = fcntl(STDOUT_FILENO, F_GETFD) == -1;
        dup2(output, STDOUT_FILENO);
        ASSERT_TRUE(channel);
        EXPECT_GT(channel->fd, STDERR_FILENO);
        EXPECT_TRUE(closed);
        rdma_destroy_event_channel(channel);
    });
}

// A channel whose other end the library has borrowed ends with the daemon, too.
TEST(Lifetime, DaemonsDeathIsToldOnAChannelThatTheLibraryWritesTo) {
    isolated([] {
        setenv("VERBENA_FABRIC", ("test-rdmacm-lent-" + std::to_string(getpid())).c_str(), 1);
        Side side;
        std::set<rdma_cm_id*> ids, told;
        for (int i = 0; i < 4; i++) ids.insert(side.resolved("127.0.0.1", 7471));
        // One event is written and not read yet; then the reader sleeps until there are more.
        rdma_cm_id* last = side.id();
        ASSERT_EQ(outcome(rdma_resolve_addr(last, nullptr, Address("127.0.0.1", 7471).get(), kResolveMs)), 0);
        side.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
        ids.insert(last);
        ASSERT_EQ(outcome(rdma_resolve_route(last, kResolveMs)), 0);
        const pid_t daemon = daemon_pid();
        std::thread killer([daemon] { end_process(daemon); });
        side.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
        for (std::size_t i = 0; i < ids.size(); i++)
            told.insert(side.expect(RDMA_CM_EVENT_DEVICE_REMOVAL).id);
        EXPECT_EQ(told, ids);
        killer.join();
    });
}

// No handler of pthread_atfork(3) has run in it.
TEST(Lifetime, AChildOfABareCloneLeavesItsParentAlone) {
    isolated([] {
        Pair pair;
        ASSERT_TRUE(pair.passive);
        const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
        if (child == 0) {
            int count = 0;
            ibv_device** devices = ibv_get_device_list(&count);
            _exit(count > 0 && ibv_open_device(devices[0]) ? 0 : 1);
        }
        expect_success(child);
        ibv_qp_attr attributes{};
        ibv_qp_init_attr creation{};
        EXPECT_EQ(ibv_query_qp(pair.active->qp, &attributes, IBV_QP_STATE, &creation), 0);
        EXPECT_EQ(attributes.qp_state, IBV_QPS_RTS);
    });
}

// The library's helper of a process; 0: none.
pid_t helper_of(pid_t process) {
    const std::string threads = "/proc/" + std::to_string(process) + "/task";
    for (const auto& thread : std::filesystem::directory_iterator(threads)) {
        std::string name;
        if (std::getline(std::ifstream(thread.path() / "comm"), name) && name == "verbena")
            return std::stoi(thread.path().filename());
    }
    return 0;
}

// Whether a thread sleeps in ppoll(2), where it holds no lock.
bool is_polling(pid_t process, pid_t thread) {
    long call = -1;
    std::ifstream("/proc/" + std::to_string(process) + "/task/" + std::to_string(thread) + "/syscall") >>
        call;
    return call == SYS_ppoll;
}

// A thread that polls gets no processor for as long as this lives, where the host allows that.
class Stopped {
   public:
    Stopped(pid_t process, pid_t thread) : thread_(thread) {
        for (bool polling = false; !polling; polling = is_polling(process, thread)) {
            release();
            seized_ = ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) == 0;
            if (!seized_) return;
            EXPECT_EQ(ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr), 0);
            EXPECT_EQ(waitpid(thread, nullptr, __WALL), thread);
        }
    }
    ~Stopped() { release(); }
    Stopped(const Stopped&) = delete;
    Stopped& operator=(const Stopped&) = delete;

   private:
    void release() {
        EXPECT_TRUE(!seized_ || ptrace(PTRACE_DETACH, thread_, nullptr, nullptr) == 0);
        seized_ = false;
    }

    const pid_t thread_;
    bool seized_ = false;
};

// The next daemon's devices are there although the helper has not yet seen the old one's end.
TEST(Lifetime, ANewDaemonServesBeforeTheHelperHasSeenTheOldOnesEnd) {
    isolated([] {
        Pipe there, stopped, done;
        const pid_t program = start([&] {
            setenv("VERBENA_FABRIC", ("test-rdmacm-helper-" + std::to_string(getpid())).c_str(), 1);
            Pair pair;
            ASSERT_TRUE(pair.passive);
            there.put(1);
            stopped.get();
            end_process(daemon_pid());
            EXPECT_EQ(pair.client.expect(RDMA_CM_EVENT_DEVICE_REMOVAL).id, pair.active);
            Pair again;
            EXPECT_TRUE(again.passive);
            EXPECT_NE(again.active->verbs, pair.active->verbs);
            done.put(1);
            stopped.get();
            // Nor does the end take anything of it along when it is seen.
            ibv_async_event fatal{};
            EXPECT_EQ(ibv_get_async_event(pair.active->verbs, &fatal), 0);
            EXPECT_EQ(fatal.event_type, IBV_EVENT_DEVICE_FATAL);
            ibv_ack_async_event(&fatal);
            ibv_recv_wr nothing{}, *refused = nullptr;
            EXPECT_EQ(ibv_post_recv(again.active->qp, &nothing, &refused), 0);
        });
        there.get();
        {
            const pid_t helper = helper_of(program);
            EXPECT_NE(helper, 0);
            const Stopped still(program, helper);
            stopped.put(1);
            done.get();
        }
        stopped.put(1);
        expect_success(program);
    });
}

// `ip link del`: each id on the device is told, and can then only be destroyed; others go on.
TEST(Lifetime, AnInterfaceThatGoesIsToldToItsIds) {
    isolated([] {
        if (unshare(CLONE_NEWNET) != 0) return;  // needs root
        if (std::system("ip link set lo up && ip link add vr0 type veth peer name vr1 &&"
                        " ip addr add 10.79.1.1/24 dev vr0 && ip link set vr0 up && ip link set vr1 up") != 0)
            return;  // no iproute2
        setenv("VERBENA_FABRIC", ("test-rdmacm-removal-" + std::to_string(getpid())).c_str(), 1);
        Pair pair("10.79.1.1");
        ASSERT_TRUE(pair.passive);
        Side others;
        rdma_cm_id* bound = others.id();
        ASSERT_EQ(outcome(rdma_bind_addr(bound, Address("10.79.1.1", 0).get())), 0);
        rdma_cm_id* local = others.id();
        ASSERT_EQ(outcome(rdma_bind_addr(local, Address("127.0.0.1", 0).get())), 0);
        ASSERT_EQ(std::system("ip link del vr0"), 0);
        EXPECT_EQ(pair.client.expect(RDMA_CM_EVENT_DEVICE_REMOVAL).id, pair.active);
        std::set<rdma_cm_id*> told;
        for (int i = 0; i < 2; i++) told.insert(pair.server.expect(RDMA_CM_EVENT_DEVICE_REMOVAL).id);
        EXPECT_EQ(told, (std::set<rdma_cm_id*>{pair.listener, pair.passive}));
        EXPECT_EQ(others.expect(RDMA_CM_EVENT_DEVICE_REMOVAL).id, bound);
        EXPECT_EQ(outcome(rdma_listen(bound, 0)), EIO);
        EXPECT_EQ(outcome(rdma_disconnect(pair.active)), EIO);
        EXPECT_EQ(outcome(rdma_listen(local, 0)), 0);
        EXPECT_TRUE(others.quiet());
    });
}

// Eight threads take from one channel: each event goes to exactly one of them, and none is lost while ids are
// destroyed and created beside them.
TEST(Lifetime, ThreadsShareAChannel) {
    isolated([] {
        constexpr int kThreads = 8, kRounds = 40;
        Side side;
        std::mutex mutex;
        std::multiset<rdma_cm_id*> seen;
        std::atomic<int> taken{0};
        std::vector<rdma_cm_id*> kept;
        for (int i = 0; i < kRounds; i++) kept.push_back(side.id());
        rdma_cm_id* stop = side.id();
        std::vector<std::thread> readers;
        std::atomic<bool> done{false};
        for (int t = 0; t < kThreads; t++)
            readers.emplace_back([&] {
                while (!done) {
                    if (!wait_readable(side.channel->fd, 10)) continue;
                    rdma_cm_event* event = nullptr;
                    if (rdma_get_cm_event(side.channel, &event) != 0) continue;
                    {
                        std::lock_guard lock(mutex);
                        seen.insert(event->id);
                    }
                    rdma_ack_cm_event(event);
                    taken++;
                }
            });
        for (rdma_cm_id* id : kept) {
            EXPECT_EQ(outcome(rdma_resolve_addr(id, nullptr, Address("127.0.0.1", 7).get(), kResolveMs)), 0);
            rdma_cm_id* passing = nullptr;
            EXPECT_EQ(outcome(rdma_create_id(side.channel, &passing, nullptr, RDMA_PS_TCP)), 0);
            rdma_resolve_addr(passing, nullptr, Address("127.0.0.1", 7).get(), kResolveMs);
            EXPECT_EQ(outcome(rdma_destroy_id(passing)), 0);
        }
        auto deadline = Clock::now() + std::chrono::milliseconds(kPatienceMs);
        auto all_seen = [&] {
            std::lock_guard lock(mutex);
            for (rdma_cm_id* id : kept)
                if (!seen.contains(id)) return false;
            return true;
        };
        while (!all_seen() && Clock::now() < deadline)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        EXPECT_TRUE(all_seen());
        done = true;
        // A reader may have seen the descriptor readable and wait inside the call now.
        for (int t = 0; t < kThreads; t++)
            rdma_resolve_addr(t == 0 ? stop : side.id(), nullptr, Address("127.0.0.1", 7).get(), kResolveMs);
        for (std::thread& reader : readers) reader.join();
        std::lock_guard lock(mutex);
        for (rdma_cm_id* id : kept) EXPECT_EQ(seen.count(id), 1u);
    });
}

}  // namespace
}  // namespace verbena::rdmacm_test
