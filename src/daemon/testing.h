// For the tests: programs that talk to a verbenad of a private fabric. Each program is a forked child,
// because one process has one connection; what it finds out comes back as its exit status and as text.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/process_testing.h"
#include "base/reason.h"
#include "daemon/clock.h"
#include "host/address_name.h"
#include "host/client.h"
#include "host/unix_socket.h"

namespace verbena::daemon::testing {

// Its allocator ends a program that is out of memory, and it opens files of its own.
#if defined(__has_feature)
inline constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool kSanitized = false;  // gcc builds none here
#endif

// Waits until the condition holds, at most ten seconds (the tests must also pass on a machine that is busy).
inline bool eventually(const std::function<bool()>& condition) {
    const Time deadline = now() + 10 * kSecond;
    while (!condition()) {
        if (now() > deadline) return false;
        usleep(2000);
    }
    return true;
}

// Exists and is no zombie (nobody may be there to reap a daemon).
inline bool is_running(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(file, text);
    const std::size_t end = text.rfind(')');
    return end != std::string::npos && text.size() > end + 2 && text[end + 2] != 'Z' && text[end + 2] != 'X';
}

// Whether every user may run that program: what was built in root's home is nobody else's to find.
inline bool is_everybodys(const std::filesystem::path& program) {
    using std::filesystem::perms;
    std::error_code error;
    for (std::filesystem::path at = program;; at = at.parent_path()) {
        if ((std::filesystem::status(at, error).permissions() & perms::others_exec) == perms::none)
            return false;
        if (at == at.root_path()) return true;
    }
}

// A copy of the daemon that every user may run.
class SharedDaemon {
   public:
    SharedDaemon() {
        EXPECT_NE(mkdtemp(folder_.data()), nullptr);
        std::filesystem::copy_file(VERBENAD, path());
        EXPECT_EQ(chmod(path().c_str(), 0755), 0);
        EXPECT_EQ(chmod(folder_.c_str(), 0755), 0);
    }
    ~SharedDaemon() {
        std::error_code ignored;
        std::filesystem::remove_all(folder_, ignored);
    }
    SharedDaemon(const SharedDaemon&) = delete;
    SharedDaemon& operator=(const SharedDaemon&) = delete;
    std::string path() const { return folder_ + "/verbenad"; }

   private:
    std::string folder_ = "/tmp/verbena-test-XXXXXX";
};

// A fabric of the test's own, on a daemon that leaves soon.
class FabricTest : public ::testing::Test {
   protected:
    void SetUp() override {
        static unsigned count = 0;
        fabric_ = "test-" + std::to_string(getpid()) + "-" + std::to_string(count++);
        setenv("VERBENA_FABRIC", fabric_.c_str(), 1);
        setenv("VERBENA_DAEMON", VERBENAD, 1);
        setenv("VERBENA_IDLE_MS", "100", 1);
        unsetenv("VERBENA_DEVICE");
        unsetenv("VERBENA_DEVICES");
    }
    void TearDown() override {
        for (pid_t pid : programs_) {
            end_process(pid);
            waitpid(pid, nullptr, 0);
        }
    }

    // For tests in which programs are of other users.
    static void share_daemon() {
        if (is_everybodys(VERBENAD)) return;
        static const SharedDaemon shared;
        setenv("VERBENA_DAEMON", shared.path().c_str(), 1);
    }

    // A program that runs beside the test until it returns; its status is 0 if it had no test failure.
    pid_t start(const std::function<void()>& program) {
        pid_t pid = fork();
        if (pid == 0) {
            alarm(60);  // a test that fails must not hang
            program();
            _exit(::testing::Test::HasFailure() ? 1 : 0);
        }
        EXPECT_GT(pid, 0) << "fork";
        if (pid > 0) programs_.push_back(pid);
        return pid;
    }
    int wait_for(pid_t pid) {
        int status = -1;
        if (pid > 0) waitpid(pid, &status, 0);
        std::erase(programs_, pid);
        return status;
    }
    // Runs to its end and must have gone well.
    void run(const std::function<void()>& program) { EXPECT_EQ(wait_for(start(program)), 0); }

    std::string fabric_;
    std::vector<pid_t> programs_;
};

// One direction of talk between a program and the test: numbers through a pipe.
class Wire {
   public:
    Wire() { EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0); }
    ~Wire() {
        close(ends_[0]);
        close(ends_[1]);
    }
    Wire(const Wire&) = delete;
    Wire& operator=(const Wire&) = delete;
    void say(std::int64_t value) { EXPECT_EQ(write(ends_[1], &value, sizeof value), ssize_t{sizeof value}); }
    std::int64_t hear() {
        std::int64_t value = -1;
        EXPECT_EQ(read(ends_[0], &value, sizeof value), ssize_t{sizeof value});
        return value;
    }

   private:
    int ends_[2];
};

template <class Reply, class RequestBody>
Reply ask(host::Command command, const RequestBody& request, int expected = 0) {
    Reply reply{};
    EXPECT_EQ(host::call(command, request, reply), expected) << last_reason();
    return reply;
}

template <class RequestBody>
void tell(host::Command command, const RequestBody& request) {
    host::tell(command,
               {static_cast<const std::uint8_t*>(static_cast<const void*>(&request)), sizeof request});
}

inline host::StatusReply status() { return ask<host::StatusReply>(host::Command::status, host::Empty{}); }

// An event channel of the calling program.
struct Channel {
    int fd = -1;
    cm::FileNumber number = 0;

    Channel() {
        int ends[2];
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
        host::FileReply reply{};
        EXPECT_EQ(host::call(host::Command::create_file, host::Empty{}, reply, ends[1]), 0) << last_reason();
        close(ends[1]);
        fd = ends[0];
        number = reply.file;
    }
    // The next event, waited for.
    cm::Event next() {
        cm::Event event;
        EXPECT_EQ(recv(fd, static_cast<void*>(&event), sizeof event, 0), ssize_t{sizeof event});
        return event;
    }
    cm::Event expect(cm::EventType type, int expected_status = 0) {
        cm::Event event = next();
        EXPECT_EQ(static_cast<int>(event.type), static_cast<int>(type));
        EXPECT_EQ(event.status, expected_status);
        return event;
    }
    cm::IdNumber create_id(cm::PortSpace port_space = cm::PortSpace::tcp) {
        host::CreateIdRequest request;
        request.file = number;
        request.port_space = port_space;
        request.qp_type = port_space == cm::PortSpace::udp ? cm::QpType::ud : cm::QpType::rc;
        return ask<host::IdReply>(host::Command::create_id, request).id;
    }
};

inline cm::Endpoint endpoint(const char* ipv4, std::uint16_t port) {
    cm::Endpoint out;
    unsigned a = 0, b = 0, c = 0, d = 0;
    EXPECT_EQ(std::sscanf(ipv4, "%u.%u.%u.%u", &a, &b, &c, &d), 4);
    out.address = Gid::from_ipv4(a << 24 | b << 16 | c << 8 | d);
    out.family = AF_INET;
    out.port = port;
    return out;
}

}  // namespace verbena::daemon::testing
