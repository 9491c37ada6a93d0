#include "link/local_reference.h"

#include <gtest/gtest.h>

namespace verbena::link {
namespace {

class Memory final : public PeerMemory {
   public:
    explicit Memory(bool readable) : readable_(readable) {}
    bool fetch(std::uint32_t, std::span<const iovec>, std::span<const iovec>) const override { return false; }
    bool sample(std::span<std::uint8_t> into) const override {
        into[0] = 1;
        return readable_;
    }

   private:
    const bool readable_;
};

TEST(LocalReference, TheKernelsCopyMustNotCostMuchMore) {
    EXPECT_TRUE((TransferTimes{.copy = 4000, .fetch = 5900}.fetching_pays()));
    EXPECT_FALSE((TransferTimes{.copy = 4000, .fetch = 6100}.fetching_pays()));
}

TEST(LocalReference, WhatCannotBeReadIsNotMeasured) {
    EXPECT_FALSE(measure_transfers(Memory(false)));
    const auto times = measure_transfers(Memory(true));
    ASSERT_TRUE(times);
    EXPECT_GT(times->copy, 0);
    EXPECT_GE(times->fetch, 0);
}

}  // namespace
}  // namespace verbena::link
