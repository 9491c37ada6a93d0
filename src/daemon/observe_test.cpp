// What tools are told of programs: those that live, and the counts of those that have ended.
#include <fcntl.h>

#include "adapter/segment.h"
#include "daemon/testing.h"
#include "host/connection.h"
#include "observe/snapshot.h"

namespace verbena::daemon::testing {
namespace {

class ObserveTest : public FabricTest {};

struct Looker {
    Looker() { EXPECT_EQ(host::open_connection(connection), 0) << last_reason(); }
    ~Looker() { host::close_connection(connection); }
    observe::Snapshot look() {
        observe::Snapshot out;
        EXPECT_EQ(observe::take_snapshot(connection, observe::Depth::everything, out), 0) << last_reason();
        return out;
    }
    host::Connection connection;
};

constexpr std::uint32_t kDevice = 0;  // the first that the daemon made

TEST_F(ObserveTest, AProgramsTablesAndWhatIsLeftOfThem) {
    Wire ready;
    const pid_t victim = start([&] {
        auto segment = adapter::Segment::create_shared({.regions = 8, .queue_pairs = 8, .objects = 8}, 1);
        ASSERT_NE(segment, nullptr);
        adapter::QpRecord& qp = segment->queue_pairs()[0];
        qp.created = 1;
        qp.number = 0x1001;
        qp.device = kDevice;
        qp.peer_device = adapter::kNoDevice;
        segment->busy_counters_of(qp).messages_sent = 7;
        host::OpenQueueReply reply;
        int socket = -1;
        ASSERT_EQ(
            host::call(host::Command::open_queue, host::OpenQueueRequest{}, reply, segment->fd(), &socket),
            0);
        Channel channel;
        host::BindRequest bind;
        bind.id = channel.create_id();
        bind.local = endpoint("127.0.0.1", 0);
        ask<cm::IdInfo>(host::Command::bind, bind);
        ready.say(1);
        pause();
    });
    ready.hear();
    run([&] {
        Looker looker;
        const observe::Snapshot before = looker.look();
        ASSERT_EQ(before.programs.size(), 1u);  // and not who looks
        EXPECT_EQ(before.programs[0].pid, static_cast<std::uint32_t>(victim));
        EXPECT_EQ(before.programs[0].user, geteuid());
        ASSERT_EQ(before.programs[0].tables.queue_pairs.size(), 1u);
        EXPECT_EQ(before.ports.at(kDevice).own.messages_sent, 7u);
        ASSERT_EQ(before.ids.size(), 1u);
        EXPECT_EQ(before.ids[0].pid, static_cast<std::uint32_t>(victim));
        EXPECT_EQ(before.ids[0].id.state, cm::IdState::address_bound);

        end_process(victim);
        EXPECT_TRUE(eventually([&] { return looker.look().programs.empty(); }));
        const observe::Snapshot after = looker.look();
        EXPECT_EQ(after.ports.at(kDevice).own.messages_sent, 7u);
        EXPECT_TRUE(after.ids.empty());
    });
}

TEST_F(ObserveTest, TheTablesAreForReadingOnly) {
    run([&] {
        auto segment = adapter::Segment::create_shared({.regions = 8, .queue_pairs = 8, .objects = 8}, 1);
        host::OpenQueueReply queue;
        int socket = -1, tables = -1;
        ASSERT_EQ(
            host::call(host::Command::open_queue, host::OpenQueueRequest{}, queue, segment->fd(), &socket),
            0);
        host::ProcessReply reply;
        ASSERT_EQ(host::call(host::Command::next_process, host::AfterRequest{}, reply, -1, &tables), 0);
        EXPECT_EQ(reply.pid, static_cast<std::uint32_t>(getpid()));
        ASSERT_GE(tables, 0);
        EXPECT_EQ(fcntl(tables, F_GETFL) & O_ACCMODE, O_RDONLY);
        ASSERT_EQ(host::call(host::Command::next_process, host::AfterRequest{reply.session}, reply), 0);
        EXPECT_EQ(reply.session, 0u);
    });
}

TEST_F(ObserveTest, ADaemonThatIsStoppedIsNamed) {
    run([&] {
        const auto daemon = static_cast<pid_t>(status().daemon_pid);
        signal_process(daemon, SIGSTOP);
        host::Connection connection;
        EXPECT_EQ(host::open_connection(connection, kSecond), ETIMEDOUT);
        EXPECT_STREQ(last_reason(),
                     ("verbenad (pid " + std::to_string(daemon) +
                      ") has not answered for 1 s: it is stopped (kill -CONT " + std::to_string(daemon) + ")")
                         .c_str());
        signal_process(daemon, SIGCONT);
        EXPECT_EQ(host::open_connection(connection, kSecond * 60), 0) << last_reason();
        host::close_connection(connection);
    });
}

TEST_F(ObserveTest, AFileThatIsNoTableIsNoHarm) {
    run([&] {
        int ends[2];
        ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
        host::OpenQueueReply queue;
        int socket = -1;
        ASSERT_EQ(host::call(host::Command::open_queue, host::OpenQueueRequest{}, queue, ends[0], &socket),
                  0);
        host::ProcessReply reply;
        ASSERT_EQ(host::call(host::Command::next_process, host::AfterRequest{}, reply), 0);
        EXPECT_EQ(reply.session, 0u);
    });
}

}  // namespace
}  // namespace verbena::daemon::testing
