// verbenad as a process: how it starts, whom it serves, what it cleans up, when it leaves.

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <thread>

#include "daemon/testing.h"

namespace verbena::daemon::testing {
namespace {

class DaemonTest : public FabricTest {};

// A call on an id (rdma_set_option with RDMA_OPTION_ID_TOS), and what it says.
int touch(cm::IdNumber id) {
    host::OptionRequest request;
    request.id = id;
    request.length = 1;
    host::Empty nothing;
    return host::call(host::Command::set_option, request, nothing);
}

// Counts how often the daemon is started: a script that notes it down.
class CountingDaemon {
   public:
    CountingDaemon() {
        char name[] = "/tmp/verbenad-count-XXXXXX";
        int fd = mkstemp(name);
        EXPECT_GE(fd, 0);
        close(fd);
        log_ = name;
        script_ = log_ + ".sh";
        std::ofstream(script_) << "#!/bin/sh\necho started >> " << log_ << "\nexec '" VERBENAD "' \"$@\"\n";
        chmod(script_.c_str(), 0755);
        setenv("VERBENA_DAEMON", script_.c_str(), 1);
    }
    ~CountingDaemon() {
        unlink(script_.c_str());
        unlink(log_.c_str());
    }
    unsigned starts() const {
        std::ifstream file(log_);
        unsigned lines = 0;
        for (std::string line; std::getline(file, line);) lines++;
        return lines;
    }

   private:
    std::string log_, script_;
};

TEST_F(DaemonTest, FiftyProgramsAtOnceStartOne) {
    CountingDaemon counting;
    Wire go, pids, finish;
    constexpr int kPrograms = 50;
    for (int i = 0; i < kPrograms; i++)
        start([&] {
            go.hear();
            pids.say(status().daemon_pid);
            finish.hear();
        });
    for (int i = 0; i < kPrograms; i++) go.say(1);
    std::set<std::int64_t> daemons;
    for (int i = 0; i < kPrograms; i++) daemons.insert(pids.hear());
    EXPECT_EQ(daemons.size(), 1u);
    EXPECT_EQ(counting.starts(), 1u);
    for (int i = 0; i < kPrograms; i++) finish.say(1);
}

TEST_F(DaemonTest, InheritsNothing) {
    Wire daemon_pid, finish;
    // Without close-on-exec, as careless programs open files.
    int marker = open("/etc/passwd", O_RDONLY);
    ASSERT_GE(marker, 0);
    start([&] {
        daemon_pid.say(status().daemon_pid);
        finish.hear();
    });
    const pid_t pid = static_cast<pid_t>(daemon_pid.hear());
    close(marker);
    const std::string folder = "/proc/" + std::to_string(pid);
    std::unique_ptr<DIR, int (*)(DIR*)> descriptors(opendir((folder + "/fd").c_str()), closedir);
    ASSERT_TRUE(descriptors);
    while (dirent* entry = readdir(descriptors.get())) {
        if (entry->d_name[0] == '.') continue;
        char target[200] = {};
        ASSERT_GT(readlink((folder + "/fd/" + entry->d_name).c_str(), target, sizeof target - 1), 0);
        const std::string text = target;
        const bool own = text == "/dev/null" || text.rfind("socket:", 0) == 0 ||
                         text.rfind("pipe:", 0) == 0 || text.rfind("anon_inode:", 0) == 0 ||
                         text.rfind("/memfd:verbena", 0) == 0 || text.rfind("/dev/shm/#", 0) == 0;
        EXPECT_TRUE(own) << text;
        if (std::atoi(entry->d_name) < 3) {
            EXPECT_EQ(text, "/dev/null");
        }
    }
    char cwd[100] = {};
    EXPECT_GT(readlink((folder + "/cwd").c_str(), cwd, sizeof cwd - 1), 0);
    EXPECT_STREQ(cwd, "/");
    EXPECT_EQ(getsid(pid), pid);
    finish.say(1);
}

// The program that starts the daemon must not notice: no child to wait for, no signal.
TEST_F(DaemonTest, IsNobodysChild) {
    run([] {
        static volatile sig_atomic_t signals = 0;
        signal(SIGCHLD, [](int) { signals = signals + 1; });
        EXPECT_NE(status().daemon_pid, 0u);
        EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
        EXPECT_EQ(errno, ECHILD);
        EXPECT_EQ(signals, 0);
    });
}

TEST_F(DaemonTest, LeavesWhenNobodyNeedsIt) {
    Wire daemon_pid;
    run([&] { daemon_pid.say(status().daemon_pid); });
    const pid_t pid = static_cast<pid_t>(daemon_pid.hear());
    EXPECT_TRUE(eventually([&] { return !is_running(pid); }));
    EXPECT_EQ(host::connect_to(host::daemon_address(geteuid(), fabric_)), -ECONNREFUSED);
    // And the next program starts the next one.
    run([&] { EXPECT_NE(status().daemon_pid, static_cast<std::uint32_t>(pid)); });
}

TEST_F(DaemonTest, StaysWhileAProgramIsConnected) {
    Wire daemon_pid, finish;
    start([&] {
        daemon_pid.say(status().daemon_pid);
        finish.hear();
        EXPECT_NE(status().daemon_pid, 0u);
    });
    const pid_t pid = static_cast<pid_t>(daemon_pid.hear());
    usleep(500'000);  // five times the idle time
    EXPECT_TRUE(is_running(pid));
    finish.say(1);
}

TEST_F(DaemonTest, ForgetsAKilledProgram) {
    Wire port, heir_pid;
    const pid_t victim = start([&] {
        Channel channel;
        const cm::IdNumber id = channel.create_id();
        host::BindRequest bind;
        bind.id = id;
        bind.local = endpoint("127.0.0.1", 0);
        const cm::IdInfo info = ask<cm::IdInfo>(host::Command::bind, bind);
        host::ListenRequest listen;
        listen.id = id;
        ask<cm::IdInfo>(host::Command::listen, listen);
        int queue = -1;
        host::OpenQueueReply reply;
        EXPECT_EQ(host::call(host::Command::open_queue, host::OpenQueueRequest{}, reply, -1, &queue), 0);
        EXPECT_GE(queue, 0);
        // A child that lives on keeps all the sockets open; the process is dead all the same.
        const pid_t heir = fork();
        if (heir == 0) {
            pause();
            _exit(0);
        }
        heir_pid.say(heir);
        port.say(info.local.port);
        pause();
    });
    const auto heir = static_cast<pid_t>(heir_pid.hear());
    const auto bound = static_cast<std::uint16_t>(port.hear());
    ASSERT_NE(bound, 0);
    run([&] {
        const host::StatusReply before = status();
        EXPECT_EQ(before.clients, 2u);
        EXPECT_EQ(before.files, 1u);
        EXPECT_EQ(before.queues, 1u);
        EXPECT_EQ(before.listeners, 1u);
        end_process(victim);
        EXPECT_TRUE(eventually([] { return status().clients == 1; }));
        const host::StatusReply after = status();
        EXPECT_EQ(after.files, 0u);
        EXPECT_EQ(after.queues, 0u);
        EXPECT_EQ(after.ids, 0u);
        EXPECT_EQ(after.listeners, 0u);
        Channel channel;
        host::BindRequest bind;
        bind.id = channel.create_id();
        bind.local = endpoint("127.0.0.1", bound);
        ask<cm::IdInfo>(host::Command::bind, bind);
    });
    end_process(heir);
}

// In a namespace of users without a map all have the same number: nobody can be told from another.
TEST_F(DaemonTest, WhoHasNoNumberIsToldToGetOne) {
    run([] {
        if (unshare(CLONE_NEWUSER) != 0) return;  // not here
        EXPECT_EQ(host::devices(), nullptr);
        EXPECT_EQ(errno, EACCES);
        EXPECT_NE(std::strstr(last_reason(), "map the user"), nullptr) << last_reason();
    });
}

TEST_F(DaemonTest, ItsDeathIsAnError) {
    run([] {
        Channel channel;
        const cm::IdNumber id = channel.create_id();
        const std::uint32_t generation = host::generation();
        const int lifeline = host::lifeline_fd();
        pollfd entry{lifeline, POLLIN, 0};
        EXPECT_EQ(poll(&entry, 1, 0), 0);
        const pid_t daemon = static_cast<pid_t>(status().daemon_pid);
        end_process(daemon);
        EXPECT_EQ(poll(&entry, 1, 10'000), 1);
        EXPECT_TRUE(entry.revents & POLLHUP);
        EXPECT_EQ(touch(id), EIO);
        EXPECT_NE(std::strstr(last_reason(), "is gone"), nullptr) << last_reason();
        EXPECT_EQ(host::generation(), generation + 1);
        // The channel's file is at its end.
        char byte;
        EXPECT_EQ(recv(channel.fd, &byte, 1, 0), 0);
        // Old objects stay dead, new ones live with the next daemon.
        EXPECT_EQ(touch(id), EIO);
        Channel next;
        EXPECT_NE(next.number, 0u);
        EXPECT_NE(static_cast<pid_t>(status().daemon_pid), daemon);
        EXPECT_EQ(touch(id), EINVAL);
        EXPECT_EQ(host::generation(), generation + 1);
    });
}

// One end of a pipe outlives the daemon, as for a moment while it dies: it looks alive until it is asked.
TEST_F(DaemonTest, OneThatIsDyingIsNotAskedForMore) {
    run([] {
        Channel channel;
        struct stat lifeline {};
        ASSERT_EQ(fstat(host::lifeline_fd(), &lifeline), 0);
        const pid_t daemon = static_cast<pid_t>(status().daemon_pid);
        int other_end = -1;
        for (const auto& entry :
             std::filesystem::directory_iterator("/proc/" + std::to_string(daemon) + "/fd")) {
            struct stat file {};
            if (stat(entry.path().c_str(), &file) == 0 && S_ISFIFO(file.st_mode) &&
                file.st_dev == lifeline.st_dev && file.st_ino == lifeline.st_ino && other_end < 0)
                other_end = open(entry.path().c_str(), O_WRONLY);
        }
        ASSERT_GE(other_end, 0);
        end_process(daemon);
        char byte;
        EXPECT_EQ(recv(channel.fd, &byte, 1, 0), 0);
        pollfd still_open{host::lifeline_fd(), 0, 0};
        EXPECT_EQ(poll(&still_open, 1, 0), 0);
        Channel next;
        EXPECT_NE(next.number, 0u);
        EXPECT_NE(static_cast<pid_t>(status().daemon_pid), daemon);
        close(other_end);
    });
}

TEST_F(DaemonTest, AForkedChildIsAProgramOfItsOwn) {
    run([] {
        Channel channel;
        const cm::IdNumber id = channel.create_id();
        const std::uint32_t generation = host::generation();
        const pid_t child = fork();
        if (child == 0) {
            EXPECT_EQ(touch(id), EIO);
            EXPECT_NE(std::strstr(last_reason(), "fork"), nullptr);
            EXPECT_NE(host::generation(), generation);
            Channel own;
            EXPECT_NE(own.create_id(), id);
            EXPECT_EQ(touch(id), EINVAL);
            _exit(::testing::Test::HasFailure() ? 1 : 0);
        }
        int result = -1;
        waitpid(child, &result, 0);
        EXPECT_EQ(result, 0);
        EXPECT_EQ(touch(id), 0);
    });
}

TEST_F(DaemonTest, AProgramThatClosesEverythingGetsAnError) {
    run([] {
        EXPECT_NE(status().daemon_pid, 0u);
        closefrom(3);
        int other = fcntl(open("/dev/null", O_RDWR), F_DUPFD, 512);  // probably under our number
        EXPECT_EQ(touch(0), EIO);
        EXPECT_EQ(fcntl(other, F_GETFD) & ~FD_CLOEXEC, 0);  // still the program's
        EXPECT_NE(status().daemon_pid, 0u);
    });
}

// Daemons that leave at once, and programs that come at that very moment: each gets a daemon.
TEST_F(DaemonTest, ComingWhileItLeaves) {
    setenv("VERBENA_IDLE_MS", "0", 1);
    std::vector<pid_t> starters;
    for (int i = 0; i < 4; i++)
        starters.push_back(start([] {
            for (int round = 0; round < 25; round++) {
                const pid_t program = fork();
                if (program == 0) {
                    EXPECT_NE(status().daemon_pid, 0u);
                    _exit(::testing::Test::HasFailure() ? 1 : 0);
                }
                int result = -1;
                waitpid(program, &result, 0);
                EXPECT_EQ(result, 0);
            }
        }));
    for (pid_t starter : starters) EXPECT_EQ(wait_for(starter), 0);
}

TEST_F(DaemonTest, ADaemonThatCannotRunIsExplained) {
    run([] {
        setenv("VERBENA_DAEMON", "/nonexistent/verbenad", 1);
        EXPECT_EQ(host::devices(), nullptr);
        EXPECT_EQ(errno, ENOENT);
        setenv("VERBENA_DAEMON", "/bin/false", 1);
        EXPECT_EQ(host::devices(), nullptr);
        EXPECT_NE(std::strstr(last_reason(), "/bin/false"), nullptr) << last_reason();
        setenv("VERBENA_FABRIC", "no/name", 1);
        EXPECT_EQ(host::devices(), nullptr);
        EXPECT_EQ(errno, EINVAL);
    });
}

// That the program itself makes, and tells apart by `argument`.
host::WriteEventRequest events_of_a_new_id(Channel& channel) {
    host::WriteEventRequest request;
    request.id = channel.create_id();
    request.type = cm::EventType::user;
    return request;
}

// More events than the socket holds arrive all, in order, and the daemon serves others meanwhile.
TEST_F(DaemonTest, EventsWaitForTheirReader) {
    run([] {
        Channel channel;
        host::WriteEventRequest request = events_of_a_new_id(channel);
        constexpr std::uint64_t kEvents = 3000;
        for (request.argument = 0; request.argument < kEvents; request.argument++)
            ask<host::Empty>(host::Command::write_event, request);
        EXPECT_NE(status().daemon_pid, 0u);
        for (std::uint64_t i = 0; i < kEvents; i++) ASSERT_EQ(channel.next().argument, i);
        // Readable if and only if an event waits.
        char byte;
        EXPECT_EQ(recv(channel.fd, &byte, 1, MSG_DONTWAIT), -1);
        EXPECT_EQ(errno, EAGAIN);
    });
}

// What was told together is acted upon in order, and its events are there before an answer behind it is.
TEST_F(DaemonTest, EventsComeInOrderAndBeforeAnAnswer) {
    run([] {
        Channel channel;
        host::WriteEventRequest request = events_of_a_new_id(channel);
        const auto daemon = static_cast<pid_t>(status().daemon_pid);
        constexpr std::uint64_t kTold = 40;
        signal_process(daemon, SIGSTOP);
        for (; request.argument < kTold; request.argument++) tell(host::Command::write_event, request);
        signal_process(daemon, SIGCONT);
        ask<host::Empty>(host::Command::write_event, request);
        for (std::uint64_t i = 0; i <= kTold; i++) {
            cm::Event event;
            ASSERT_EQ(recv(channel.fd, static_cast<void*>(&event), sizeof event, MSG_DONTWAIT),
                      ssize_t{sizeof event});
            ASSERT_EQ(event.argument, i);
        }
    });
}

TEST_F(DaemonTest, ManyThreadsOfOneProgram) {
    run([] {
        std::vector<std::thread> threads;
        for (int i = 0; i < 8; i++)
            threads.emplace_back([] {
                Channel channel;
                for (int round = 0; round < 50; round++) {
                    host::IdRequest id;
                    id.id = channel.create_id();
                    EXPECT_EQ(touch(id.id), 0);
                    EXPECT_NE(host::devices(), nullptr);
                    EXPECT_EQ(host::generation(), 1u);
                    tell(host::Command::request_taken, id);
                    ask<host::EventsReply>(host::Command::destroy_id, id);
                }
                close(channel.fd);
            });
        for (std::thread& thread : threads) thread.join();
        EXPECT_EQ(status().ids, 0u);
        EXPECT_TRUE(eventually([] { return status().files == 0; }));
    });
}

// What a process that makes many ids says instead of asking.
void tell_id(const Channel& channel, cm::IdNumber number) {
    host::CreateIdRequest request;
    request.id = number;
    request.file = channel.number;
    request.port_space = cm::PortSpace::tcp;
    tell(host::Command::create_id, request);
}

TEST_F(DaemonTest, ReservedNumbersMakeIdsOfTheirProcess) {
    Wire reserved, tried;
    const pid_t program = start([&] {
        Channel channel;
        host::CreateIdRequest request;
        request.file = channel.number;
        request.port_space = cm::PortSpace::tcp;
        request.reserve = 3;
        const cm::IdNumber first = ask<host::IdReply>(host::Command::create_id, request).id;
        tell_id(channel, first + 2);
        EXPECT_EQ(touch(first + 2), 0);
        tell_id(channel, first + 1);  // behind a higher one
        EXPECT_EQ(touch(first + 1), EINVAL);
        tell_id(channel, first + 4);  // more than were asked for
        EXPECT_EQ(touch(first + 4), EINVAL);
        request.id = 0;  // refused: what is in reserve stays
        request.port_space = cm::PortSpace::ib;
        request.qp_type = cm::QpType{};
        host::IdReply refused;
        EXPECT_EQ(host::call(host::Command::create_id, request, refused), EINVAL);
        request.port_space = cm::PortSpace::tcp;
        reserved.say(first + 3);
        tried.hear();
        tell_id(channel, first + 3);
        EXPECT_EQ(touch(first + 3), 0);
        request.reserve = host::kMostReserved + 1;
        host::IdReply nothing;
        EXPECT_NE(host::call(host::Command::create_id, request, nothing), 0);
    });
    const auto number = static_cast<cm::IdNumber>(reserved.hear());
    run([&] {
        Channel channel;
        tell_id(channel, number);
        EXPECT_EQ(touch(number), EINVAL);
        EXPECT_NE(channel.create_id(), number);
    });
    tried.say(1);
    EXPECT_EQ(wait_for(program), 0);
}

TEST_F(DaemonTest, IdsBelongToTheirProcess) {
    Wire id, finish;
    start([&] {
        Channel channel;
        id.say(channel.create_id());
        finish.hear();
    });
    const auto foreign = static_cast<cm::IdNumber>(id.hear());
    run([&] {
        EXPECT_EQ(touch(foreign), EINVAL);
        host::EventsReply events;
        EXPECT_EQ(host::call(host::Command::destroy_id, host::IdRequest{foreign}, events), EINVAL);
    });
    finish.say(1);
}

TEST_F(DaemonTest, QueuesAreNotReusedAtOnce) {
    run([] {
        std::set<std::uint32_t> numbers;
        for (int i = 0; i < 5; i++) {
            host::OpenQueueReply reply;
            int fd = -1;
            ASSERT_EQ(host::call(host::Command::open_queue, host::OpenQueueRequest{}, reply, -1, &fd), 0);
            EXPECT_GE(fd, 0);
            close(fd);
            EXPECT_NE(reply.queue, 0u);
            EXPECT_EQ(reply.first_qp_number, reply.queue << 12);
            EXPECT_TRUE(numbers.insert(reply.queue).second);
            host::QueueNumber number;
            number.queue = reply.queue;
            ask<host::Empty>(host::Command::close_queue, number);
            ask<host::Empty>(host::Command::close_queue, number, EINVAL);
        }
    });
}

}  // namespace
}  // namespace verbena::daemon::testing
