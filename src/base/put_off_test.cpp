#include "base/put_off.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>

namespace verbena {
namespace {

struct Sleeper final : Wakening {
    void wake() noexcept override { woken++; }
    int woken = 0;
};

TEST(PutOffTest, WhoPutsNothingOffWakesAtOnce) {
    Sleeper sleeper;
    EXPECT_EQ(PutOff::add(sleeper), PutOff::Added::now);
    { const PutOff behind; }
    EXPECT_EQ(PutOff::add(sleeper), PutOff::Added::now);
    EXPECT_EQ(sleeper.woken, 0);  // the caller's
}

TEST(PutOffTest, TheOutermostMakesGoodOnceForEach) {
    Sleeper one, other;
    {
        const PutOff outer;
        {
            const PutOff inner;
            EXPECT_EQ(PutOff::add(one), PutOff::Added::first);
            EXPECT_EQ(PutOff::add(other), PutOff::Added::first);
            EXPECT_EQ(PutOff::add(one), PutOff::Added::again);
        }
        EXPECT_EQ(one.woken + other.woken, 0);
    }
    EXPECT_EQ(one.woken, 1);
    EXPECT_EQ(other.woken, 1);
    {
        const PutOff anew;
        EXPECT_EQ(PutOff::add(one), PutOff::Added::first);
    }
    EXPECT_EQ(one.woken, 2);
    EXPECT_EQ(other.woken, 1);
}

TEST(PutOffTest, WhatTakesLongCatchesUp) {
    Sleeper sleeper;
    const PutOff behind;
    PutOff::add(sleeper);
    PutOff::catch_up();
    EXPECT_EQ(sleeper.woken, 1);
    PutOff::catch_up();
    EXPECT_EQ(sleeper.woken, 1);
    EXPECT_EQ(PutOff::add(sleeper), PutOff::Added::first);
}

TEST(PutOffTest, WhatHasNoPlaceIsWokenAtOnce) {
    std::array<Sleeper, 64> sleepers;
    unsigned now = 0;
    {
        const PutOff behind;
        for (Sleeper& sleeper : sleepers)
            if (PutOff::add(sleeper) == PutOff::Added::now) now++;
        EXPECT_EQ(PutOff::add(sleepers[0]), PutOff::Added::again);
    }
    EXPECT_GT(now, 0u);
    unsigned woken = 0;
    for (const Sleeper& sleeper : sleepers) woken += static_cast<unsigned>(sleeper.woken);
    EXPECT_EQ(now + woken, sleepers.size());
    EXPECT_EQ(sleepers[0].woken, 1);
}

TEST(PutOffTest, OthersPutNothingOff) {
    Sleeper sleeper;
    const PutOff behind;
    std::thread([&] { EXPECT_EQ(PutOff::add(sleeper), PutOff::Added::now); }).join();
    EXPECT_EQ(PutOff::add(sleeper), PutOff::Added::first);
}

TEST(PutOffTest, TellsOnceThatItWoke) {
    Sleeper sleeper;
    PutOff::woke();
    { const PutOff behind; }
    EXPECT_FALSE(PutOff::woke());
    {
        const PutOff behind;
        PutOff::add(sleeper);
    }
    EXPECT_TRUE(PutOff::woke());
    EXPECT_FALSE(PutOff::woke());
}

}  // namespace
}  // namespace verbena
