// The daemon's socket, byte by byte: programs that do not follow the protocol, and those of another version.

#include <sys/resource.h>

#include <fstream>

#include "daemon/testing.h"

namespace verbena::daemon::testing {
namespace {

class ConversationTest : public FabricTest {};

// Requests as bytes, on a connection of the test's own.
class RawProgram {
   public:
    explicit RawProgram(const std::string& fabric)
        : fd_(host::connect_to(host::daemon_address(geteuid(), fabric))) {}
    ~RawProgram() { close(fd_); }
    bool send_bytes(const void* bytes, std::size_t size, int file = -1) {
        const iovec part{const_cast<void*>(bytes), size};
        return host::send_datagram(fd_, std::span(&part, 1), std::span(&file, file >= 0 ? 1 : 0)) == 0;
    }
    // Size of what came; 0: the daemon closed the connection.
    ssize_t receive(host::ReplyHeader& reply) {
        if (host::wait_readable(fd_, 10'000) != 0) return -1;
        return recv(fd_, static_cast<void*>(&reply), sizeof reply, 0);
    }

   private:
    int fd_;
};

TEST_F(ConversationTest, AMalformedRequestEndsItsSenderOnly) {
    run([&] {
        EXPECT_NE(status().daemon_pid, 0u);
        host::ReplyHeader reply;
        {
            RawProgram raw(fabric_);
            EXPECT_TRUE(raw.send_bytes("hello?", 6));
            EXPECT_EQ(raw.receive(reply), 0);
        }
        {
            RawProgram raw(fabric_);
            host::RequestHeader header;
            header.command = host::Command::hello;
            header.length = 3;
            EXPECT_TRUE(raw.send_bytes(&header, sizeof header));
            EXPECT_EQ(raw.receive(reply), 0);
        }
        EXPECT_TRUE(eventually([] { return status().clients == 1; }));
    });
}

// What lies in its socket at once the daemon takes at once.
TEST_F(ConversationTest, NothingCountsBehindAMalformedRequest) {
    run([&] {
        const auto daemon = static_cast<pid_t>(status().daemon_pid);
        RawProgram raw(fabric_);
        EXPECT_TRUE(eventually([] { return status().clients == 2; }));
        signal_process(daemon, SIGSTOP);
        struct {
            host::RequestHeader header;
            host::Empty nothing;
        } request;
        request.header.command = host::Command::status;
        request.header.sequence = 1;
        request.header.length = sizeof request.nothing;
        const std::size_t size = sizeof request.header + sizeof request.nothing;
        EXPECT_TRUE(raw.send_bytes(&request, size));
        EXPECT_TRUE(raw.send_bytes("hello?", 6));
        request.header.command = host::Command::create_file;
        request.header.sequence = 2;
        int ends[2];
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
        EXPECT_TRUE(raw.send_bytes(&request, size, ends[1]));
        close(ends[1]);
        signal_process(daemon, SIGCONT);

        host::ReplyHeader reply;
        EXPECT_EQ(raw.receive(reply), ssize_t{sizeof reply});
        EXPECT_EQ(reply.sequence, 1u);
        EXPECT_LE(raw.receive(reply), 0);
        char byte;
        EXPECT_EQ(recv(ends[0], &byte, 1, 0), 0);  // the file that came along is closed
        EXPECT_EQ(status().files, 0u);
        EXPECT_EQ(status().clients, 1u);
    });
}

TEST_F(ConversationTest, AnotherVersionIsTold) {
    run([&] {
        EXPECT_NE(status().daemon_pid, 0u);
        RawProgram raw(fabric_);
        host::RequestHeader header;
        header.version = host::kProtocolVersion + 1;
        EXPECT_TRUE(raw.send_bytes(&header, 6));  // all that two versions surely share
        host::ReplyHeader reply;
        EXPECT_EQ(raw.receive(reply), ssize_t{sizeof reply});
        EXPECT_EQ(reply.magic, host::kProtocolMagic);
        EXPECT_EQ(reply.version, host::kProtocolVersion);
        EXPECT_EQ(reply.error, EPROTO);
        EXPECT_EQ(raw.receive(reply), 0);
    });
}

// The other way round: a daemon of another version.
TEST_F(ConversationTest, AnotherVersionsDaemonIsRefused) {
    int listener = host::listen_on(host::daemon_address(geteuid(), fabric_), 8);
    ASSERT_GE(listener, 0);
    for (int difference : {-1, 1}) {
        Wire ready;
        const pid_t program = start([&] {
            EXPECT_EQ(host::devices(), nullptr);
            EXPECT_EQ(errno, EPROTO);
            const char* culprit = difference < 0 ? "the daemon is the older one" : "restart the program";
            EXPECT_NE(std::strstr(last_reason(), culprit), nullptr) << last_reason();
        });
        int fd = accept(listener, nullptr, nullptr);
        ASSERT_GE(fd, 0);
        host::ReplyHeader reply;
        reply.version = static_cast<std::uint16_t>(host::kProtocolVersion + difference);
        EXPECT_EQ(send(fd, &reply, 8, 0), 8);
        EXPECT_EQ(wait_for(program), 0);
        close(fd);
    }
    close(listener);
}

int open_queue(host::OpenQueueReply& reply) {
    int fd = -1;
    const int error = host::call(host::Command::open_queue, host::OpenQueueRequest{}, reply, -1, &fd);
    if (fd >= 0) close(fd);
    return error;
}

int create_file(int end) {
    host::FileReply reply;
    return host::call(host::Command::create_file, host::Empty{}, reply, end);
}

// Files that do not arrive cost the call that they belong to, and nothing else: where the daemon may open no
// more,
TEST_F(ConversationTest, WithoutDescriptorsOneCallFails) {
    Wire limited;
    start([&] {
        const rlimit limit{40, 40};
        EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
        EXPECT_NE(status().daemon_pid, 0u);
        limited.say(1);
        pause();
    });
    limited.hear();
    run([] {
        Channel channel;
        const cm::IdNumber id = channel.create_id();
        int ends[2];
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
        int error = 0;
        for (int i = 0; i < 40 && !error; i++) error = create_file(ends[1]);
        EXPECT_EQ(error, EMFILE);
        EXPECT_NE(std::strstr(last_reason(), "may open no more than 40 files"), nullptr) << last_reason();
        host::OpenQueueReply queue;
        EXPECT_EQ(open_queue(queue), EMFILE);
        EXPECT_NE(std::strstr(last_reason(), "may open no more than 40 files"), nullptr) << last_reason();
        host::EventsReply events;
        EXPECT_EQ(host::call(host::Command::destroy_id, host::IdRequest{id}, events), 0);
        EXPECT_EQ(host::generation(), 1u);
    });
}

// and where the program may not.
TEST_F(ConversationTest, AProgramWithoutDescriptorsKeepsWhatItHas) {
    run([] {
        Channel channel;
        const cm::IdNumber id = channel.create_id();
        rlimit before{};
        ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
        const rlimit none{0, before.rlim_max};
        ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
        host::OpenQueueReply reply;
        EXPECT_EQ(open_queue(reply), EMFILE);
        EXPECT_NE(std::strstr(last_reason(), "this process may not open"), nullptr) << last_reason();
        EXPECT_NE(reply.qp_numbers, 0u);  // to be given back
        ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
        host::EventsReply events;
        EXPECT_EQ(host::call(host::Command::destroy_id, host::IdRequest{id}, events), 0);
        EXPECT_EQ(host::generation(), 1u);
    });
}

std::uint64_t kilobytes_of(pid_t pid, const std::string& what) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/status");
    for (std::string word; file >> word;)
        if (word == what + ":") {
            std::uint64_t kilobytes = 0;
            file >> kilobytes;
            return kilobytes;
        }
    return 0;
}

class WithoutMemoryTest : public ConversationTest {
   protected:
    void SetUp() override {
        if (kSanitized) GTEST_SKIP() << "a sanitizer's allocator ends the program";
        ConversationTest::SetUp();
    }
    // From here on the daemon may have no more than this.
    static void limit(pid_t daemon, std::uint64_t more_kilobytes) {
        const std::uint64_t data = (kilobytes_of(daemon, "VmData") + more_kilobytes) * 1024;
        const rlimit limit{data, data};
        ASSERT_EQ(prlimit(daemon, RLIMIT_DATA, &limit, nullptr), 0);
    }
    // As many as there is memory for.
    static std::vector<cm::IdNumber> many_ids(const Channel& channel) {
        std::vector<cm::IdNumber> ids;
        int error = 0;
        while (!error && ids.size() < 100'000) {
            host::CreateIdRequest request;
            request.file = channel.number;
            request.port_space = cm::PortSpace::tcp;
            host::IdReply reply;
            error = host::call(host::Command::create_id, request, reply);
            if (!error) ids.push_back(reply.id);
        }
        EXPECT_EQ(error, ENOMEM);
        EXPECT_NE(std::strstr(last_reason(), "has no memory for that"), nullptr) << last_reason();
        EXPECT_GT(ids.size(), 1000u);
        return ids;
    }
};

// Where it may have no more memory it says so to who asks for it, and goes on for the others.
TEST_F(WithoutMemoryTest, OneCallFails) {
    run([] {
        const auto daemon = static_cast<pid_t>(status().daemon_pid);
        limit(daemon, 4096);
        Channel channel;
        for (const cm::IdNumber id : many_ids(channel)) {
            host::EventsReply events;
            ASSERT_EQ(host::call(host::Command::destroy_id, host::IdRequest{id}, events), 0);
        }
        EXPECT_EQ(status().ids, 0u);
        EXPECT_NE(channel.create_id(), 0u);
        EXPECT_EQ(static_cast<pid_t>(status().daemon_pid), daemon);
    });
}

// Nor for something small: so its end must need none.
TEST_F(WithoutMemoryTest, AProgramsEndFreesIt) {
    Wire pid, full;
    const pid_t other = start([&] {
        const auto daemon = static_cast<pid_t>(status().daemon_pid);
        pid.say(daemon);
        full.hear();
        EXPECT_TRUE(eventually([] { return status().clients == 1; }));
        EXPECT_EQ(status().ids, 0u);
        Channel channel;
        EXPECT_NE(channel.create_id(), 0u);
        EXPECT_EQ(static_cast<pid_t>(status().daemon_pid), daemon);
    });
    run([&] {
        limit(static_cast<pid_t>(pid.hear()), 4096);
        Channel channel;
        const std::vector<cm::IdNumber> ids = many_ids(channel);
        int error = 0;
        for (std::size_t i = 0; error == 0 && i < ids.size(); i++) {
            host::BindRequest request;
            request.id = ids[i];
            request.local.family = AF_INET;
            cm::IdInfo info;
            error = host::call(host::Command::bind, request, info);
        }
        EXPECT_EQ(error, ENOMEM) << last_reason();
        EXPECT_NE(std::strstr(last_reason(), "has no memory for that"), nullptr) << last_reason();
    });
    full.say(1);
    EXPECT_EQ(wait_for(other), 0);
}

// When its descriptors run out it refuses newcomers and serves the others; it does not spin.
TEST_F(ConversationTest, RunsOutOfDescriptors) {
    Wire limited;
    start([&] {
        rlimit limit{40, 40};
        EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
        EXPECT_NE(status().daemon_pid, 0u);
        limited.say(1);
        pause();
    });
    limited.hear();
    run([&] {
        EXPECT_NE(status().daemon_pid, 0u);
        std::vector<std::unique_ptr<RawProgram>> crowd;
        for (int i = 0; i < 40; i++) crowd.push_back(std::make_unique<RawProgram>(fabric_));
        host::ReplyHeader reply;
        EXPECT_EQ(crowd.back()->receive(reply), ssize_t{sizeof reply});
        EXPECT_EQ(reply.error, EMFILE);
        EXPECT_EQ(crowd.back()->receive(reply), 0);  // refused
        const pid_t newcomer = fork();
        if (newcomer == 0) {
            EXPECT_EQ(host::devices(), nullptr);
            EXPECT_EQ(errno, EMFILE);
            EXPECT_NE(std::strstr(last_reason(), "may open no more than 40 files"), nullptr) << last_reason();
            _exit(::testing::Test::HasFailure() ? 1 : 0);
        }
        int result = -1;
        waitpid(newcomer, &result, 0);
        EXPECT_EQ(result, 0);
        EXPECT_GT(status().clients, 2u);
        crowd.clear();
        EXPECT_TRUE(eventually([] { return status().clients == 2; }));
        EXPECT_TRUE(
            eventually([&] { return host::connect_to(host::daemon_address(geteuid(), fabric_)) >= 0; }));
    });
}

}  // namespace
}  // namespace verbena::daemon::testing
