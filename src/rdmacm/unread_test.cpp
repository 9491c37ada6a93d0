// Events that leave the middle of a channel's queue, because their id is destroyed or moves.
#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "rdmacm/channel_testing.h"

namespace verbena::rdmacm {
namespace {

using host::Command;

class UnreadTest : public ChannelFixture {
   protected:
    std::vector<rdma_cm_id*> with_an_event_each(int count) {
        std::vector<rdma_cm_id*> ids;
        for (int i = 1; i <= count; i++) deliver(ids.emplace_back(create()), -i);
        return ids;
    }
};

TEST_F(UnreadTest, DestroyedIdLeavesNoEventAndTheOrderOfTheOthers) {
    rdma_cm_id *a = create(), *b = create();
    deliver(a, -1);
    deliver(b, -2);
    deliver(a, -3);
    deliver(b, -4);
    EXPECT_EQ(rdma_destroy_id(a), 0);
    deliver(b, -6);  // arrives behind what was put back
    EXPECT_EQ(next_status(channel), -2);
    EXPECT_EQ(next_status(channel), -4);
    EXPECT_EQ(next_status(channel), -6);
    EXPECT_FALSE(readable(channel));
    rdma_destroy_id(b);
}

TEST_F(UnreadTest, PutBackEventsKeepTheirPlaceWhenNewerOnesOvertakeTheTokens) {
    rdma_cm_id *a = create(), *b = create();
    deliver(b, -2);
    deliver(a, -1);
    // The daemon sends b another event before it gets to the token.
    auto requeue = [&](const void* request, void*) {
        auto& token = static_cast<const host::RequeueRequest*>(request)->event;
        if (token.argument == 0) daemon.deliver(file, event_for(b, -3));
        daemon.deliver(file, token);
        return 0;
    };
    daemon.answers[Command::requeue] = requeue;
    rdma_destroy_id(a);
    EXPECT_EQ(next_status(channel), -2);
    EXPECT_EQ(next_status(channel), -3);
    EXPECT_FALSE(readable(channel));
    daemon.answers.clear();
    rdma_destroy_id(b);
}

// The socket is short and the daemon keeps what does not fit: that must be found, too.
TEST_F(UnreadTest, EventsStillInTheDaemonAreRemovedAsWell) {
    rdma_cm_id *a = create(), *b = create();
    deliver(a, -1);
    daemon.answers[Command::destroy_id] = [](const void*, void* reply) {
        host::EventsReply events{2};
        std::memcpy(reply, &events, sizeof events);
        return 0;
    };
    std::thread late;
    daemon.answers[Command::requeue] = [&](const void* request, void*) {
        auto token = static_cast<const host::RequeueRequest*>(request)->event;
        if (token.argument == 0) {
            daemon.deliver(file, token);
            return 0;
        }
        late = std::thread([this, a, b, token] {
            deliver(a, -2);
            deliver(b, -3);
            daemon.deliver(file, token);
        });
        return 0;
    };
    EXPECT_EQ(rdma_destroy_id(a), 0);
    late.join();
    EXPECT_EQ(next_status(channel), -3);
    EXPECT_FALSE(readable(channel));
    daemon.answers.clear();
    EXPECT_EQ(rdma_destroy_id(b), 0);
}

TEST_F(UnreadTest, DestroyingTheOnlyIdMakesTheDescriptorQuiet) {
    rdma_cm_id* id = create();
    deliver(id, -1);
    EXPECT_EQ(rdma_destroy_id(id), 0);
    EXPECT_FALSE(readable(channel));
}

TEST_F(UnreadTest, DestroyWithoutUnreadEventsPutsNothingBack) {
    rdma_cm_id *a = create(), *b = create();
    deliver(b, -1);
    deliver(b, -2);
    rdma_destroy_id(a);
    EXPECT_EQ(daemon.count(Command::requeue), 0u);
    EXPECT_EQ(next_status(channel), -1);
    rdma_destroy_id(b);
}

constexpr int kMany = 64;  // as many as a socket holds everywhere

TEST_F(UnreadTest, DestroyingInTheOrderOfArrivalSendsNothingBack) {
    for (rdma_cm_id* id : with_an_event_each(kMany)) {
        EXPECT_TRUE(readable(channel));
        EXPECT_EQ(rdma_destroy_id(id), 0);
    }
    EXPECT_FALSE(readable(channel));
    EXPECT_EQ(daemon.count(Command::requeue), 0u);
}

TEST_F(UnreadTest, DestroyingInTheOppositeOrderSendsBackOnce) {
    std::vector<rdma_cm_id*> ids = with_an_event_each(kMany);
    std::reverse(ids.begin(), ids.end());
    for (rdma_cm_id* id : ids) {
        EXPECT_TRUE(readable(channel));
        EXPECT_EQ(rdma_destroy_id(id), 0);
    }
    EXPECT_FALSE(readable(channel));
    EXPECT_EQ(daemon.count(Command::requeue), 1u);
    EXPECT_EQ(daemon.last<host::RequeueRequest>(Command::requeue).count, kMany - 1u);
}

TEST_F(UnreadTest, MovingInTheOrderOfArrivalSendsEachToItsNewChannelOnly) {
    rdma_event_channel* other = rdma_create_event_channel();
    const std::vector<rdma_cm_id*> ids = with_an_event_each(kMany);
    for (rdma_cm_id* id : ids) EXPECT_EQ(rdma_migrate_id(id, other), 0);
    EXPECT_EQ(daemon.count(Command::requeue), static_cast<unsigned>(kMany));
    EXPECT_FALSE(readable(channel));
    for (int i = 1; i <= kMany; i++) EXPECT_EQ(next_status(other), -i);
    EXPECT_FALSE(readable(other));
    for (rdma_cm_id* id : ids) EXPECT_EQ(rdma_destroy_id(id), 0);
    rdma_destroy_event_channel(other);
}

// Two channels, while events come, are read, move and go in any order: each id's come in theirs, and a
// channel is readable as long as it has one.
TEST_F(UnreadTest, WhateverLeavesTheRestStaysInOrderAndReadable) {
    struct Waiting {
        std::size_t channel = 0;
        std::deque<int> statuses;
    };
    struct End {
        rdma_event_channel* channel;
        cm::FileNumber file;
    };
    std::vector<End> ends{{channel, file}};
    ends.push_back({rdma_create_event_channel(), daemon.last_file});
    std::map<rdma_cm_id*, Waiting> ids;
    auto waiting = [&](std::size_t end) {
        std::size_t count = 0;
        for (const auto& [id, its] : ids) count += its.channel == end ? its.statuses.size() : 0;
        return count;
    };
    std::mt19937 random(20261128);
    int status = 0;
    for (int step = 0; step < 5000; step++) {
        while (ids.size() < 8) ids[create()];
        rdma_cm_id* const id = std::next(ids.begin(), static_cast<long>(random() % ids.size()))->first;
        Waiting& its = ids[id];
        const End end = ends[its.channel];
        switch (random() % 8) {
            case 0:
                ASSERT_EQ(rdma_destroy_id(id), 0);
                ids.erase(id);
                break;
            case 1:
                its.channel ^= 1;
                ASSERT_EQ(rdma_migrate_id(id, ends[its.channel].channel), 0);
                break;
            case 2:
            case 3: {
                if (waiting(its.channel) == 0) break;
                rdma_cm_event* event = nullptr;
                ASSERT_EQ(rdma_get_cm_event(end.channel, &event), 0);
                Waiting& read = ids.at(event->id);
                ASSERT_EQ(read.channel, its.channel);
                ASSERT_FALSE(read.statuses.empty());
                ASSERT_EQ(event->status, read.statuses.front());
                read.statuses.pop_front();
                ASSERT_EQ(rdma_ack_cm_event(event), 0);
                break;
            }
            default:
                if (waiting(0) + waiting(1) == kMany) break;
                daemon.deliver(end.file, event_for(id, --status));
                its.statuses.push_back(status);
        }
        for (std::size_t i = 0; i < ends.size(); i++)
            ASSERT_EQ(readable(ends[i].channel), waiting(i) > 0) << "step " << step;
    }
    for (const auto& [id, its] : ids) EXPECT_EQ(rdma_destroy_id(id), 0);
    for (const End& end : ends) EXPECT_FALSE(readable(end.channel));
    rdma_destroy_event_channel(ends[1].channel);
}

}  // namespace
}  // namespace verbena::rdmacm
