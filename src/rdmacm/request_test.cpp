// Connection requests: the ids that they make, and listeners that are destroyed meanwhile.
#include <gtest/gtest.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>

#include <thread>
#include <vector>

#include "rdmacm/channel_testing.h"

namespace verbena::rdmacm {
namespace {

using host::Command;
using RequestTest = ChannelFixture;

TEST_F(RequestTest, ConnectionRequestMakesAnIdAndFreesABacklogPlace) {
    int context = 0;
    rdma_cm_id* listener = create(&context);
    cm::Event request = request_for(listener, 77);
    request.connection.private_data_length = 56;
    request.connection.qp_number = 0x1234;
    daemon.deliver(file, request);
    rdma_cm_event* event = nullptr;
    ASSERT_EQ(rdma_get_cm_event(channel, &event), 0);
    EXPECT_EQ(event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
    EXPECT_EQ(event->listen_id, listener);
    ASSERT_NE(event->id, nullptr);
    EXPECT_NE(event->id, listener);
    EXPECT_EQ(event->id->context, &context);
    EXPECT_EQ(event->id->channel, channel);
    EXPECT_EQ(event->id->ps, RDMA_PS_TCP);
    EXPECT_EQ(event->param.conn.qp_num, 0x1234u);
    EXPECT_EQ(daemon.last<host::IdRequest>(Command::request_taken).id, numbers[listener]);
    rdma_cm_id* child = event->id;
    EXPECT_EQ(rdma_ack_cm_event(event), 0);
    EXPECT_EQ(rdma_destroy_id(child), 0);
    EXPECT_EQ(daemon.last<host::IdRequest>(Command::destroy_id).id, 77u);
    EXPECT_EQ(rdma_destroy_id(listener), 0);
}

// A listener counts what it has read in the page that it shares with the daemon, and tells on demand only.
TEST_F(RequestTest, ListenerCountsWhatItReads) {
    rdma_cm_id* listener = create();
    ASSERT_EQ(rdma_listen(listener, 1), 0);
    std::vector<rdma_cm_id*> children;
    for (const bool tell : {false, true}) {
        daemon.backlog().tell = tell;
        daemon.deliver(file, request_for(listener, tell ? 78 : 77));
        rdma_cm_event* event = nullptr;
        ASSERT_EQ(rdma_get_cm_event(channel, &event), 0);
        children.push_back(event->id);
        EXPECT_EQ(rdma_ack_cm_event(event), 0);
        EXPECT_EQ(daemon.backlog().taken, children.size());
        EXPECT_EQ(daemon.count(Command::request_taken), tell ? 1u : 0u);
        ASSERT_EQ(rdma_migrate_id(children.back(), channel), 0);  // used
    }
    // Once more: refused, and the page stays the one that counts.
    daemon.answers[Command::listen] = [](const void*, void*) { return EINVAL; };
    EXPECT_NE(rdma_listen(listener, 1), 0);
    daemon.deliver(file, request_for(listener, 79));
    rdma_cm_event* event = nullptr;
    ASSERT_EQ(rdma_get_cm_event(channel, &event), 0);
    children.push_back(event->id);
    EXPECT_EQ(rdma_ack_cm_event(event), 0);
    EXPECT_EQ(daemon.backlog().taken, 3u);
    for (rdma_cm_id* child : children) EXPECT_EQ(rdma_destroy_id(child), 0);
    EXPECT_EQ(rdma_destroy_id(listener), 0);
}

TEST_F(RequestTest, RequestWithoutADeviceIsAbandoned) {
    rdma_cm_id *listener = create(), *other = create();
    cm::Event request = request_for(listener, 78);
    request.info.route.device = 9;
    daemon.deliver(file, request);
    deliver(other, -9);
    EXPECT_EQ(next_status(channel), -9);
    EXPECT_EQ(daemon.last<host::IdRequest>(Command::destroy_id).id, 78u);
    EXPECT_EQ(rdma_destroy_id(listener), 0);
    EXPECT_EQ(rdma_destroy_id(other), 0);
}

// A reader that holds a request back until the one before it is used, and another thread that destroys the
// listener.
TEST_F(RequestTest, RequestOfAListenerThatIsBeingDestroyedIsSwallowed) {
    rdma_cm_id *listener = create(), *other = create();
    cm::Event request = request_for(listener, 81);
    daemon.deliver(file, request);
    rdma_cm_event* first = nullptr;
    ASSERT_EQ(rdma_get_cm_event(channel, &first), 0);
    rdma_cm_id* child = first->id;
    rdma_ack_cm_event(first);
    request.id = 82;
    daemon.deliver(file, request);
    std::thread reader([this] { EXPECT_EQ(next_status(channel), -9); });
    while (readable(channel)) std::this_thread::yield();
    EXPECT_EQ(rdma_destroy_id(listener), 0);
    deliver(other, -9);
    reader.join();
    EXPECT_EQ(rdma_destroy_id(child), 0);
    EXPECT_EQ(rdma_destroy_id(other), 0);
}

// The event is taken while the request is held back, so it is the program's before the thread ends.
TEST_F(RequestTest, AReaderThatIsCancelledKeepsTheRequestThatItHasTaken) {
    rdma_cm_id* listener = create();
    daemon.deliver(file, request_for(listener, 83));
    rdma_cm_event* first = nullptr;
    ASSERT_EQ(rdma_get_cm_event(channel, &first), 0);
    daemon.deliver(file, request_for(listener, 84));
    rdma_cm_event* second = nullptr;
    std::thread reader([&] { rdma_get_cm_event(channel, &second); });
    while (readable(channel)) std::this_thread::yield();
    EXPECT_EQ(pthread_cancel(reader.native_handle()), 0);
    reader.join();
    ASSERT_TRUE(second);  // or the listener's destruction would wait for it
    for (rdma_cm_event* event : {first, second}) {
        rdma_cm_id* child = event->id;
        EXPECT_EQ(rdma_ack_cm_event(event), 0);
        EXPECT_EQ(rdma_destroy_id(child), 0);
    }
    EXPECT_EQ(rdma_destroy_id(listener), 0);
}

// One that has taken nothing is cancelled as in a kernel.
TEST_F(RequestTest, AReaderThatWaitsCanBeCancelled) {
    rdma_cm_event* event = nullptr;
    std::thread reader([&] { rdma_get_cm_event(channel, &event); });
    EXPECT_EQ(pthread_cancel(reader.native_handle()), 0);
    reader.join();
    EXPECT_FALSE(event);
}

TEST_F(RequestTest, DestroyedListenerTakesItsUnreadRequestsAlong) {
    rdma_cm_id* listener = create();
    cm::Event request = request_for(listener, 79);
    daemon.deliver(file, request);
    EXPECT_EQ(rdma_destroy_id(listener), 0);
    EXPECT_FALSE(readable(channel));
}

}  // namespace
}  // namespace verbena::rdmacm
