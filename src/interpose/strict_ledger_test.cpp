// Events that wait for an acknowledgement, and objects that are left.

#include "interpose/strict_ledger.h"

#include <gtest/gtest.h>

namespace verbena::interpose {
namespace {

TEST(Unacknowledged, Counted) {
    Unacknowledged events;
    int cq = 0;
    events.fetched(&cq, {nullptr, "event"});
    events.fetched(&cq, {nullptr, "event"});
    EXPECT_EQ(events.acknowledged(&cq, 1), 1u);
    EXPECT_EQ(events.of(&cq).size(), 1u);
    EXPECT_EQ(events.acknowledged(&cq, 5), 5u);
    EXPECT_TRUE(events.of(&cq).empty());
}

TEST(Unacknowledged, ByAddress) {
    Unacknowledged events;
    int id = 0, first = 0, second = 0;
    events.fetched(&id, {&first, "first"});
    events.fetched(&id, {&second, "second"});
    EXPECT_TRUE(events.acknowledged(&first));
    ASSERT_EQ(events.of(&id).size(), 1u);
    EXPECT_EQ(events.of(&id)[0].name, "second");
}

TEST(Unacknowledged, ByType) {
    Unacknowledged events;
    int qp = 0;
    events.fetched(&qp, {nullptr, "first", 1});
    events.fetched(&qp, {nullptr, "second", 2});
    EXPECT_EQ(events.acknowledged(&qp, 1, 2), 1u);
    ASSERT_EQ(events.of(&qp).size(), 1u);
    EXPECT_EQ(events.of(&qp)[0].name, "first");
}

TEST(Unacknowledged, WhatWasGivenUpIsNotAcknowledgedAgain) {
    Unacknowledged events;
    int id = 0, event = 0;
    events.fetched(&id, {&event, "event"});
    EXPECT_EQ(events.give_up(&id).size(), 1u);
    EXPECT_TRUE(events.of(&id).empty());
    EXPECT_FALSE(events.acknowledged(&event));
    EXPECT_TRUE(events.acknowledged(&event));  // its address may be another's by now
}

TEST(Unacknowledged, NewEventsAtTheAddressOfWhatWasGivenUp) {
    Unacknowledged events;
    int id = 0, another = 0, event = 0;
    events.fetched(&id, {&event, "event"});
    events.give_up(&id);
    for (int i = 0; i < 2; i++) {
        events.fetched(&another, {&event, "event"});
        EXPECT_TRUE(events.acknowledged(&event));
        EXPECT_TRUE(events.of(&another).empty());
    }
}

TEST(Unacknowledged, WhatWasGivenUpOfCountedOnesIsNotAcknowledgedAgain) {
    Unacknowledged events;
    int cq = 0;
    events.fetched(&cq, {nullptr, "event"});
    events.fetched(&cq, {nullptr, "event"});
    events.give_up(&cq);
    events.fetched(&cq, {nullptr, "event"});     // another completion queue's
    EXPECT_EQ(events.acknowledged(&cq, 2), 1u);  // for that
    EXPECT_EQ(events.acknowledged(&cq, 1), 0u);
    EXPECT_EQ(events.acknowledged(&cq, 1), 1u);
}

TEST(Inventory, ByKindAndPlace) {
    Inventory inventory;
    int objects[4];
    const Inventory::Place here{&objects[0]}, there{&objects[1]};
    inventory.made(&objects[0], "qp", here, 1);
    inventory.made(&objects[1], "cq", here, 1);
    inventory.made(&objects[2], "qp", here, 1);
    inventory.made(&objects[3], "qp", there, 2);
    auto left = inventory.left(1);
    ASSERT_EQ(left.size(), 2u);
    EXPECT_STREQ(left[0].kind, "cq");
    EXPECT_EQ(left[1].count, 2u);
    inventory.gone(&objects[0]);
    EXPECT_EQ(inventory.left(1)[1].count, 1u);
    EXPECT_EQ(inventory.left(3).size(), 0u);
}

}  // namespace
}  // namespace verbena::interpose
