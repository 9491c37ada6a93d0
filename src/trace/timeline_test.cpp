// The order in which things are shown.

#include "trace/timeline.h"

#include <gtest/gtest.h>

#include <string>

namespace verbena::trace {
namespace {

constexpr std::uint64_t kStart = 1'000'000'000'000;

class TimelineTest : public testing::Test {
   protected:
    void call(const char* kind, const char* name, std::uint64_t time, std::uint64_t duration = 0,
              int tid = 1) {
        timeline.add(
            {{"k", kind}, {"call", name}, {"t", kStart + time}, {"d", duration}, {"pid", 1}, {"tid", tid}});
    }
    void packet(std::uint64_t time) { timeline.add({{"k", "packet"}, {"t", kStart + time}}); }
    void advance(std::uint64_t time) { timeline.advance(kStart + time); }

    std::string shown;
    Timeline timeline{[this](const Json& event, Part part) {
        shown += (part == Part::unfinished ? "<"
                  : part == Part::resumed  ? ">"
                                           : "") +
                 event.value("call", "packet") + " ";
    }};
};

TEST_F(TimelineTest, ACallStandsWhereItBegan) {
    packet(20);
    call("call", "rdma_connect", 10, 30);
    advance(Timeline::kKeptBack + 100);
    EXPECT_EQ(shown, "rdma_connect packet ");
}

TEST_F(TimelineTest, OneThatFetchesStandsWhereItReturned) {
    packet(20);
    call("begin", "rdma_get_cm_event", 10);
    call("call", "rdma_get_cm_event", 10, 30);
    timeline.end();
    EXPECT_EQ(shown, "packet rdma_get_cm_event ");
}

TEST_F(TimelineTest, NothingIsShownBeforeWhatMayStillCome) {
    packet(20);
    advance(Timeline::kKeptBack + 19);
    EXPECT_EQ(shown, "");
    advance(Timeline::kKeptBack + 20);
    EXPECT_EQ(shown, "packet ");
}

TEST_F(TimelineTest, ALongCallIsShownTwice) {
    const std::uint64_t long_time = 10 * Timeline::kKeptBack;
    call("begin", "rdma_connect", 10);
    advance(Timeline::kKeptBack + 20);
    packet(long_time);
    call("call", "rdma_connect", 10, 2 * long_time);
    timeline.end();
    EXPECT_EQ(shown, "<rdma_connect packet >rdma_connect ");
}

TEST_F(TimelineTest, AThreadThatWaitsIsShownAfterAWhile) {
    call("begin", "ibv_get_cq_event", 10);
    advance(Timeline::kWaiting);
    EXPECT_EQ(shown, "");
    advance(Timeline::kWaiting + Timeline::kKeptBack + 10);
    EXPECT_EQ(shown, "<ibv_get_cq_event ");
}

TEST_F(TimelineTest, WhatNeverReturnsIsUnfinished) {
    call("begin", "ibv_get_cq_event", 10, 0, 1);
    call("begin", "ibv_get_cq_event", 10, 0, 2);
    call("call", "ibv_get_cq_event", 10, 5, 2);
    timeline.end();
    EXPECT_EQ(shown, "ibv_get_cq_event <ibv_get_cq_event ");
}

}  // namespace
}  // namespace verbena::trace
