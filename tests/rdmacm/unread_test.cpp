// Far more unread events than a channel's socket holds: the daemon keeps the rest.
#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <vector>

#include "fabric.h"

namespace verbena::rdmacm_test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMany = 1000;
// They take some ten milliseconds; took each as long as all that wait, it would be longer than this.
constexpr std::chrono::seconds kBound{5};

class Unread : public testing::Test {
   protected:
    void SetUp() override {
        Address nobody("127.0.0.1", 7);
        for (int i = 0; i < kMany; i++) {
            rdma_cm_id* id = nullptr;
            ASSERT_EQ(outcome(rdma_create_id(side.channel, &id, nullptr, RDMA_PS_TCP)), 0);
            ids.push_back(id);
            ASSERT_EQ(outcome(rdma_resolve_addr(id, nullptr, nobody.get(), kResolveMs)), 0);
        }
    }
    void destroy_all() {
        const auto before = Clock::now();
        for (rdma_cm_id* id : ids) {
            ASSERT_FALSE(side.quiet(kPatienceMs));
            ASSERT_EQ(outcome(rdma_destroy_id(id)), 0);
        }
        EXPECT_LT(Clock::now() - before, kBound);
        EXPECT_TRUE(side.quiet());
    }

    Side side;
    std::vector<rdma_cm_id*> ids;
};

TEST_F(Unread, IdsGoInTheOrderOfTheirEvents) { destroy_all(); }

TEST_F(Unread, IdsGoInTheOppositeOrder) {
    std::reverse(ids.begin(), ids.end());
    destroy_all();
}

TEST_F(Unread, IdsGoInAnyOrder) {
    std::shuffle(ids.begin(), ids.end(), std::mt19937(kMany));
    destroy_all();
}

TEST_F(Unread, WhatStaysIsReadInItsOrder) {
    std::vector<rdma_cm_id*> stay;
    for (int i = 0; i < kMany; i++)
        if (i % 3 == 1)
            stay.push_back(ids[static_cast<std::size_t>(i)]);
        else
            ASSERT_EQ(outcome(rdma_destroy_id(ids[static_cast<std::size_t>(i)])), 0);
    for (rdma_cm_id* id : stay) ASSERT_EQ(side.expect(RDMA_CM_EVENT_ADDR_RESOLVED).id, id);
    EXPECT_TRUE(side.quiet());
    for (rdma_cm_id* id : stay) EXPECT_EQ(outcome(rdma_destroy_id(id)), 0);
}

TEST_F(Unread, AllMoveToAnotherChannel) {
    Side other;
    const auto before = Clock::now();
    for (rdma_cm_id* id : ids) ASSERT_EQ(outcome(rdma_migrate_id(id, other.channel)), 0);
    EXPECT_LT(Clock::now() - before, kBound);
    EXPECT_TRUE(side.quiet());
    for (rdma_cm_id* id : ids) ASSERT_EQ(other.expect(RDMA_CM_EVENT_ADDR_RESOLVED).id, id);
    EXPECT_TRUE(other.quiet());
    for (rdma_cm_id* id : ids) EXPECT_EQ(outcome(rdma_destroy_id(id)), 0);
}

}  // namespace
}  // namespace verbena::rdmacm_test
