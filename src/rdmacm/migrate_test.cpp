// Moving ids to another event channel: what goes along, and what is waited for.
#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>

#include <cstring>
#include <thread>

#include "rdmacm/channel_testing.h"

namespace verbena::rdmacm {
namespace {

using host::Command;
using MigrateTest = ChannelFixture;

TEST_F(MigrateTest, MigrateTakesTheUnreadEventsAlongInOrder) {
    rdma_cm_id *a = create(), *b = create();
    rdma_event_channel* other = rdma_create_event_channel();
    cm::FileNumber other_file = daemon.last_file;
    deliver(a, -1);
    deliver(b, -2);
    deliver(a, -3);
    daemon.answers[Command::migrate] = [&](const void*, void* reply) {
        const host::EventsReply before{2};
        std::memcpy(reply, &before, sizeof before);
        daemon.deliver(other_file, event_for(a, -4));  // the first one for the new channel
        return 0;
    };
    EXPECT_EQ(rdma_migrate_id(a, other), 0);
    EXPECT_EQ(a->channel, other);
    EXPECT_EQ(next_status(other), -1);
    EXPECT_EQ(next_status(other), -3);
    EXPECT_EQ(next_status(other), -4);
    EXPECT_FALSE(readable(other));
    EXPECT_EQ(next_status(channel), -2);
    EXPECT_FALSE(readable(channel));
    rdma_destroy_id(a);
    rdma_destroy_id(b);
    rdma_destroy_event_channel(other);
}

// What another thread reads from the new channel while the call runs is that thread's to acknowledge.
TEST_F(MigrateTest, MigrateWaitsForNoEventOfTheNewChannel) {
    rdma_cm_id* id = create();
    rdma_event_channel* other = rdma_create_event_channel();
    deliver(id, -1);
    rdma_cm_event *before = nullptr, *after = nullptr;
    ASSERT_EQ(rdma_get_cm_event(channel, &before), 0);
    deliver(id, -2);  // goes along
    std::thread reader([&] {
        EXPECT_EQ(rdma_get_cm_event(other, &after), 0);
        EXPECT_EQ(rdma_ack_cm_event(before), 0);
    });
    EXPECT_EQ(rdma_migrate_id(id, other), 0);
    reader.join();
    EXPECT_EQ(after->status, -2);
    EXPECT_EQ(rdma_ack_cm_event(after), 0);
    EXPECT_EQ(rdma_destroy_id(id), 0);
    rdma_destroy_event_channel(other);
}

TEST_F(MigrateTest, FailedMigrationMovesNothing) {
    rdma_cm_id* a = create();
    rdma_event_channel* other = rdma_create_event_channel();
    deliver(a, -1);
    daemon.answers[Command::migrate] = [](const void*, void*) { return ENODEV; };
    errno = 0;
    EXPECT_EQ(rdma_migrate_id(a, other), -1);
    EXPECT_EQ(errno, ENODEV);
    EXPECT_EQ(a->channel, channel);
    EXPECT_FALSE(readable(other));
    EXPECT_EQ(next_status(channel), -1);
    rdma_destroy_id(a);
    rdma_destroy_event_channel(other);
}

}  // namespace
}  // namespace verbena::rdmacm
