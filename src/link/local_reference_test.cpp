#include "link/local_reference.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace verbena::link {
namespace {

// A peer's memory that takes so long to read.
class Memory final : public PeerMemory {
   public:
    explicit Memory(std::chrono::microseconds takes) : takes_(takes) {}
    bool fetch(std::uint32_t, std::span<const iovec>, std::span<const iovec>) const override { return false; }
    void sample(std::span<std::uint8_t> into) const override {
        into[0] = 1;
        if (takes_.count() > 0) std::this_thread::sleep_for(takes_);
    }

   private:
    const std::chrono::microseconds takes_;
};

TEST(LocalReference, WhatIsReadFasterThanCopiedIsFetched) {
    EXPECT_TRUE(fetching_pays(Memory(std::chrono::microseconds(0))));
    EXPECT_FALSE(fetching_pays(Memory(std::chrono::milliseconds(20))));
}

}  // namespace
}  // namespace verbena::link
