#include "host/program_page.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace verbena::host {
namespace {

// As the two processes have it: mapped twice.
class ProgramPageTest : public ::testing::Test {
   protected:
    ProgramPageTest() {
        int fd = -1;
        programs_ = SharedPage::make("test", fd);
        EXPECT_TRUE(programs_);
        EXPECT_EQ(SharedPage::open(fd, daemons_), 0);
        close(fd);
    }
    ProgramPage& program() { return programs_.as<ProgramPage>(); }
    ProgramPage& daemon() { return daemons_.as<ProgramPage>(); }

   private:
    SharedPage programs_, daemons_;
};

TEST_F(ProgramPageTest, APortIsTakenOnce) {
    EXPECT_EQ(program().ports.take(), 0);
    daemon().ports.lend(0, 40000);
    daemon().ports.lend(LentPorts::kPlaces - 1, 65535);
    EXPECT_EQ(program().ports.take(), 40000);
    EXPECT_EQ(program().ports.take(), 65535);
    EXPECT_EQ(program().ports.take(), 0);
}

TEST_F(ProgramPageTest, WhatWasTakenIsNotTakenBack) {
    daemon().ports.lend(1, 40000);
    EXPECT_TRUE(daemon().ports.take_back(1, 40000));
    EXPECT_EQ(program().ports.take(), 0);
    daemon().ports.lend(1, 40001);
    EXPECT_EQ(program().ports.take(), 40001);
    EXPECT_FALSE(daemon().ports.take_back(1, 40001));
}

TEST_F(ProgramPageTest, OneOfManyThreadsHasAPort) {
    constexpr unsigned kThreads = 4, kRounds = 2000;
    std::vector<std::uint16_t> taken[kThreads];
    std::vector<std::thread> threads;
    std::atomic<bool> over{false};
    for (auto& mine : taken)
        threads.emplace_back([&] {
            while (!over.load())
                if (const std::uint16_t port = program().ports.take()) mine.push_back(port);
        });
    std::vector<std::uint16_t> all;
    for (unsigned i = 0; i < kRounds; i++) {
        const auto port = static_cast<std::uint16_t>(1 + i);
        const std::size_t place = i % LentPorts::kPlaces;
        daemon().ports.lend(place, port);
        if (i % 3 == 0 && daemon().ports.take_back(place, port)) {
            all.push_back(port);
            continue;
        }
        while (!daemon().ports.take_back(place, 0)) std::this_thread::yield();  // until none is there
    }
    over.store(true);
    for (std::thread& each : threads) each.join();
    for (const auto& mine : taken) all.insert(all.end(), mine.begin(), mine.end());
    std::ranges::sort(all);
    EXPECT_EQ(all.size(), kRounds);
    EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
}

TEST_F(ProgramPageTest, DeparturesAreHeardInOrderAndOnce) {
    std::uint32_t heard = 0;
    EXPECT_FALSE(daemon().departures.hear(heard));
    cm::IdNumber next = 1, expected = 1;
    for (unsigned round = 0; round < 5; round++) {
        for (unsigned i = 0; i < Departures::kMost - round; i++)
            EXPECT_TRUE(program().departures.leave(next++));
        while (const auto left = daemon().departures.hear(heard)) EXPECT_EQ(*left, expected++);
        EXPECT_EQ(expected, next);
    }
}

TEST_F(ProgramPageTest, WithoutRoomNothingIsLost) {
    std::uint32_t heard = 0;
    for (cm::IdNumber id = 1; id <= Departures::kMost; id++) EXPECT_TRUE(program().departures.leave(id));
    EXPECT_FALSE(program().departures.leave(7777));
    EXPECT_EQ(daemon().departures.hear(heard), 1u);
    EXPECT_TRUE(program().departures.leave(8888));
    EXPECT_FALSE(program().departures.leave(9999));
    cm::IdNumber last = 0;
    while (const auto left = daemon().departures.hear(heard)) last = *left;
    EXPECT_EQ(last, 8888u);
}

}  // namespace
}  // namespace verbena::host
