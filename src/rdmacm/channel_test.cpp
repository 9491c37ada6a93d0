// Event channels and the life of ids, against the fake daemon: readability of the descriptor, and the
// daemon's death. Ids whose events wait: unread_test.cpp. Moving ids: migrate_test.cpp. Connection requests:
// request_test.cpp.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/reason.h"
#include "rdmacm/channel_testing.h"

namespace verbena::rdmacm {
namespace {

using host::Command;
using ChannelTest = ChannelFixture;

TEST_F(ChannelTest, AnEventCarriesWhatTheDaemonSaid) {
    int context = 0;
    rdma_cm_id* id = create(&context);
    EXPECT_EQ(id->context, &context);
    EXPECT_EQ(id->channel, channel);
    cm::Event sent = event_for(id, 28, cm::EventType::rejected);
    sent.connection.private_data_length = 148;
    sent.connection.private_data[147] = 0xa5;
    sent.connection.responder_resources = 3;
    daemon.deliver(file, sent);
    rdma_cm_event* event = nullptr;
    ASSERT_EQ(rdma_get_cm_event(channel, &event), 0);
    EXPECT_EQ(event->id, id);
    EXPECT_EQ(event->listen_id, nullptr);
    EXPECT_EQ(event->event, RDMA_CM_EVENT_REJECTED);
    EXPECT_EQ(event->status, 28);
    EXPECT_EQ(event->param.conn.private_data_len, 148);
    EXPECT_EQ(static_cast<const unsigned char*>(event->param.conn.private_data)[147], 0xa5);
    EXPECT_EQ(event->param.conn.responder_resources, 3);
    EXPECT_EQ(rdma_ack_cm_event(event), 0);
    EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(ChannelTest, DescriptorIsReadableIfAndOnlyIfAnEventWaits) {
    rdma_cm_id* id = create();
    EXPECT_FALSE(readable(channel));
    deliver(id, -1);
    deliver(id, -2);
    EXPECT_TRUE(readable(channel));
    EXPECT_EQ(next_status(channel), -1);
    EXPECT_TRUE(readable(channel));
    EXPECT_EQ(next_status(channel), -2);
    EXPECT_FALSE(readable(channel));
    rdma_destroy_id(id);
}

TEST_F(ChannelTest, NonBlockingDescriptorAnswersEagain) {
    fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
    const std::string before = last_reason();
    rdma_cm_event* event = nullptr;
    errno = 0;
    EXPECT_EQ(rdma_get_cm_event(channel, &event), -1);
    EXPECT_EQ(errno, EAGAIN);
    EXPECT_EQ(last_reason(), before);  // ordinary, and as often as the program looks
}

TEST_F(ChannelTest, BlockingCallWaitsForAnEvent) {
    rdma_cm_id* id = create();
    std::thread later([&] { deliver(id, -5); });
    EXPECT_EQ(next_status(channel), -5);
    later.join();
    rdma_destroy_id(id);
}

TEST_F(ChannelTest, SignalInterruptsWithEintr) {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    sigaction(SIGUSR1, &action, nullptr);
    std::atomic<bool> done{false};
    pthread_t self = pthread_self();
    // A signal that comes before the call blocks is lost, so they keep coming.
    std::thread sender([&] {
        while (!done) {
            pthread_kill(self, SIGUSR1);
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    });
    rdma_cm_event* event = nullptr;
    errno = 0;
    EXPECT_EQ(rdma_get_cm_event(channel, &event), -1);
    EXPECT_EQ(errno, EINTR);
    done = true;
    sender.join();
}

// Whether the daemon was asked to destroy it, or only told.
class DestroyingTest : public ChannelTest {
   protected:
    DestroyingTest() {
        daemon.answers[Command::destroy_id] = [this](const void*, void*) {
            asked_ = true;
            return 0;
        };
    }
    rdma_cm_id* disconnected(std::chrono::nanoseconds quiet) {
        rdma_cm_id* id = create();
        cm::Event event = event_for(id, 0, cm::EventType::disconnected);
        const auto until = std::chrono::steady_clock::now().time_since_epoch() + quiet;
        event.argument = static_cast<std::uint64_t>(std::chrono::nanoseconds(until).count());
        daemon.deliver(file, event);
        EXPECT_EQ(next_status(channel), 0);
        return id;
    }
    bool asked_ = false;
};

TEST_F(DestroyingTest, IsToldWhileNoEventCanCome) {
    rdma_cm_id* id = disconnected(std::chrono::seconds(10));
    EXPECT_EQ(rdma_destroy_id(id), 0);
    EXPECT_FALSE(asked_);
    EXPECT_EQ(daemon.count(Command::destroy_id), 1u);
}

TEST_F(DestroyingTest, IsAskedWhereClocksDiffer) {
    EXPECT_EQ(rdma_destroy_id(disconnected(std::chrono::hours(1))), 0);
    EXPECT_TRUE(asked_);
}

TEST_F(DestroyingTest, IsAskedWhereTimewaitMayEnd) {
    EXPECT_EQ(rdma_destroy_id(disconnected(std::chrono::milliseconds(1))), 0);
    EXPECT_TRUE(asked_);
}

// The peer has thought better of it before it heard of our confirmation.
TEST_F(ChannelTest, WhatWasEstablishedIsDisconnectedNotRejected) {
    rdma_cm_id* id = create();
    daemon.deliver(file, event_for(id, 0, cm::EventType::established));
    daemon.deliver(file, event_for(id, 28, cm::EventType::rejected));
    EXPECT_EQ(next_status(channel), 0);
    rdma_cm_event* event = nullptr;
    ASSERT_EQ(rdma_get_cm_event(channel, &event), 0);
    EXPECT_EQ(event->event, RDMA_CM_EVENT_DISCONNECTED);
    EXPECT_EQ(event->status, 0);
    rdma_ack_cm_event(event);
    rdma_destroy_id(id);
}

TEST_F(ChannelTest, DestroyWaitsForAcknowledgement) {
    rdma_cm_id* id = create();
    deliver(id, -1);
    rdma_cm_event* event = nullptr;
    ASSERT_EQ(rdma_get_cm_event(channel, &event), 0);
    std::atomic<bool> returned{false};
    std::thread destroyer([&] {
        EXPECT_EQ(rdma_destroy_id(id), 0);
        returned = true;
    });
    while (daemon.count(Command::destroy_id) == 0) std::this_thread::yield();
    // Time to return too early; a correct call never uses it.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(returned);
    EXPECT_EQ(rdma_ack_cm_event(event), 0);
    destroyer.join();
}

TEST_F(ChannelTest, CallsOnADestroyedIdFailAndTouchNothing) {
    rdma_cm_id* id = create();
    rdma_destroy_id(id);
    errno = 0;
    EXPECT_EQ(rdma_disconnect(id), -1);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_THAT(last_reason(), testing::HasSubstr("none of this process"));
    EXPECT_EQ(rdma_destroy_id(id), -1);
    EXPECT_EQ(rdma_destroy_id(nullptr), -1);
    rdma_destroy_qp(id);
    rdma_destroy_ep(id);
}

TEST_F(ChannelTest, WhoDestroyedTheChannelIsToldAtOnce) {
    rdma_event_channel* gone = std::exchange(channel, nullptr);
    rdma_destroy_event_channel(gone);
    rdma_cm_event* event = nullptr;
    EXPECT_EQ(rdma_get_cm_event(gone, &event), -1);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_THAT(last_reason(), testing::HasSubstr("none of this process"));
}

// rping: main destroys the channel and returns, while the thread that read it asks for one more event. Its
// perror and exit status must not depend on who was faster.
TEST_F(ChannelTest, ReaderThatComesAfterAnotherThreadDestroyedTheChannelMissesTheProcessesEnd) {
    const pid_t child = fork();
    if (child == 0) {
        rdma_event_channel* gone = rdma_create_event_channel();
        std::thread([gone] { rdma_destroy_event_channel(gone); }).join();
        std::thread([gone] {
            rdma_cm_event* event = nullptr;
            rdma_get_cm_event(gone, &event);
            _exit(1);
        }).detach();
        std::this_thread::sleep_for(std::chrono::milliseconds(50));  // time to answer too early
        _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

TEST_F(ChannelTest, DeadDaemonIsReportedToEachIdOnceAndThenAsEio) {
    rdma_cm_id *a = create(), *b = create();
    deliver(a, -1);
    daemon.die();
    EXPECT_EQ(next_status(channel), -1);
    std::vector<rdma_cm_id*> told;
    for (int i = 0; i < 2; i++) {
        rdma_cm_event* event = nullptr;
        ASSERT_EQ(rdma_get_cm_event(channel, &event), 0);
        EXPECT_EQ(event->event, RDMA_CM_EVENT_DEVICE_REMOVAL);
        told.push_back(event->id);
        rdma_ack_cm_event(event);
    }
    EXPECT_THAT(told, testing::UnorderedElementsAre(a, b));
    rdma_cm_event* event = nullptr;
    errno = 0;
    EXPECT_EQ(rdma_get_cm_event(channel, &event), -1);
    EXPECT_EQ(errno, EIO);
    EXPECT_EQ(rdma_listen(a, 0), -1);
    EXPECT_EQ(errno, EIO);
    EXPECT_EQ(rdma_destroy_id(a), 0);
    EXPECT_EQ(rdma_destroy_id(b), 0);
}

TEST_F(ChannelTest, IdsOfAnEarlierDaemonAreNeverShownToItsSuccessor) {
    rdma_cm_id* id = create();
    daemon.generation++;
    std::size_t calls = daemon.calls();
    errno = 0;
    EXPECT_EQ(rdma_disconnect(id), -1);
    EXPECT_EQ(errno, EIO);
    EXPECT_EQ(rdma_destroy_id(id), 0);
    EXPECT_EQ(daemon.calls(), calls);
}

TEST_F(ChannelTest, ChannelMayBeDestroyedBeforeItsIds) {
    rdma_cm_id* id = create();
    deliver(id, -1);
    rdma_destroy_event_channel(channel);
    channel = nullptr;
    EXPECT_EQ(daemon.count(Command::close_file), 1u);
    errno = 0;
    EXPECT_EQ(rdma_listen(id, 0), -1);
    EXPECT_EQ(errno, EBADF);
    EXPECT_EQ(rdma_destroy_id(id), 0);
    EXPECT_EQ(daemon.count(Command::destroy_id), 0u);
}

TEST_F(ChannelTest, SynchronousIdWaitsForItsEventAndTurnsStatusIntoErrno) {
    rdma_cm_id* id = nullptr;
    ASSERT_EQ(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP), 0);
    ASSERT_NE(id->channel, nullptr);
    numbers[id] = daemon.last_id;
    handles[id] = daemon.last<host::CreateIdRequest>(Command::create_id).user_handle;
    cm::FileNumber own = daemon.last_file;
    struct {
        cm::EventType type;
        int status, result, error;
    } rows[] = {
        {cm::EventType::route_error, 0, 0, 0},
        {cm::EventType::route_error, -ETIMEDOUT, -1, ETIMEDOUT},
        {cm::EventType::rejected, 8, -1, ECONNREFUSED},
        {cm::EventType::unreachable, 1, -1, ECONNREFUSED},
        {cm::EventType::unreachable, -ETIMEDOUT, -1, ETIMEDOUT},
    };
    for (const auto& row : rows) {
        daemon.deliver(own, event_for(id, row.status, row.type));
        errno = 0;
        EXPECT_EQ(rdma_resolve_route(id, 10), row.result);
        EXPECT_EQ(errno, row.error);
        ASSERT_NE(id->event, nullptr);
        EXPECT_EQ(id->event->status, row.status);
    }
    EXPECT_EQ(rdma_destroy_id(id), 0);  // acknowledges id->event itself
    EXPECT_EQ(daemon.count(Command::close_file), 1u);
}

// Waiting for an answer is two changes of process; where an event has said that it can only be 0, nobody
// waits.
TEST_F(ChannelTest, NobodyWaitsForAnAnswerThatAnEventHasGiven) {
    rdma_cm_id* id = create();
    daemon.answers[Command::resolve_route] = [](const void*, void*) { return EINVAL; };
    daemon.answers[Command::disconnect] = [](const void*, void*) { return EINVAL; };
    EXPECT_EQ(rdma_resolve_route(id, 10), -1);
    EXPECT_EQ(rdma_disconnect(id), -1);

    daemon.deliver(file, event_for(id, 0, cm::EventType::addr_resolved));
    EXPECT_EQ(next_status(channel), 0);
    EXPECT_EQ(rdma_resolve_route(id, 10), 0);
    EXPECT_EQ(daemon.last<host::ResolveRouteRequest>(Command::resolve_route).id, numbers[id]);
    EXPECT_EQ(rdma_resolve_route(id, 10), -1);  // the second one is a mistake
    EXPECT_EQ(daemon.count(Command::resolve_route), 3u);
    // An option may change what an event that waits already told.
    daemon.deliver(file, event_for(id, 0, cm::EventType::addr_resolved));
    std::uint8_t service = 8;
    EXPECT_EQ(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &service, 1), 0);
    EXPECT_EQ(next_status(channel), 0);
    EXPECT_EQ(rdma_resolve_route(id, 10), -1);

    daemon.deliver(file, event_for(id, 0, cm::EventType::established));
    EXPECT_EQ(next_status(channel), 0);
    EXPECT_EQ(rdma_disconnect(id), 0);
    daemon.deliver(file, event_for(id, 0, cm::EventType::disconnected));
    EXPECT_EQ(next_status(channel), 0);
    EXPECT_EQ(rdma_disconnect(id), 0);
    EXPECT_EQ(daemon.count(Command::disconnect), 3u);
    daemon.answers.clear();
    EXPECT_EQ(rdma_destroy_id(id), 0);
}

TEST_F(ChannelTest, ForkedChildHasNoneOfTheParentsIdsAndMayMakeItsOwn) {
    rdma_cm_id* id = create();
    pid_t child = fork();
    if (child == 0) {
        int wrong = 0;
        errno = 0;
        if (rdma_listen(id, 0) != -1 || errno != EINVAL) wrong |= 1;
        rdma_cm_event* event = nullptr;
        if (rdma_get_cm_event(channel, &event) != -1 || errno != EINVAL) wrong |= 2;
        rdma_event_channel* own = rdma_create_event_channel();
        rdma_cm_id* fresh = nullptr;
        if (!own || rdma_create_id(own, &fresh, nullptr, RDMA_PS_TCP) != 0) wrong |= 4;
        if (fresh && rdma_destroy_id(fresh) != 0) wrong |= 8;
        _exit(wrong);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    rdma_destroy_id(id);
}

TEST_F(ChannelTest, UserEventsCarryAStatusAndAnArgument) {
    rdma_cm_id* id = create();
    cm::Event sent = event_for(id, 5, cm::EventType::user);
    sent.argument = 0x1122334455667788;
    daemon.deliver(file, sent);
    rdma_cm_event* event = nullptr;
    ASSERT_EQ(rdma_get_cm_event(channel, &event), 0);
    std::uint64_t argument;
    std::memcpy(&argument, &event->param, sizeof argument);
    EXPECT_EQ(argument, sent.argument);
    EXPECT_EQ(event->status, 5);
    rdma_ack_cm_event(event);
    rdma_destroy_id(id);
}

}  // namespace
}  // namespace verbena::rdmacm
