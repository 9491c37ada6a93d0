#include "link/first_touch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace verbena::link {
namespace {

class FirstTouchTest : public ::testing::Test {
   protected:
    FirstTouchTest() : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
        void* memory = mmap(nullptr, size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        EXPECT_NE(memory, MAP_FAILED);
        memory_ = static_cast<std::uint8_t*>(memory);
    }
    ~FirstTouchTest() override { munmap(memory_, size()); }

    std::size_t size() const { return kSteps * step(); }
    std::size_t step() const { return kPagesAtOnce * page_; }
    unsigned real_pages() const {
        std::array<unsigned char, kSteps * kPagesAtOnce> present{};
        EXPECT_EQ(mincore(memory_, size(), present.data()), 0);
        unsigned count = 0;
        for (unsigned char page : present) count += page & 1;
        return count;
    }

    static constexpr unsigned kSteps = 4, kPagesAtOnce = 8;
    const std::size_t page_;
    std::uint8_t* memory_ = nullptr;
};

TEST_F(FirstTouchTest, WhoComesToAPlaceFindsItsStepReal) {
    if (madvise(memory_, page_, MADV_POPULATE_WRITE) != 0 && errno == EINVAL)
        GTEST_SKIP() << "this kernel makes pages one by one";
    FirstTouch touch(memory_, size(), step(), FirstTouch::For::writing);
    EXPECT_EQ(touch.reach(1), step());
    EXPECT_EQ(real_pages(), kPagesAtOnce);
    EXPECT_EQ(touch.reach(step()), step());
    EXPECT_EQ(real_pages(), kPagesAtOnce);
    EXPECT_EQ(touch.reach(step() + 1), 3 * step());  // twice as many
    EXPECT_EQ(real_pages(), 3 * kPagesAtOnce);
    EXPECT_EQ(touch.reach(3 * step() + 1), FirstTouch::kAll);  // what is left
    EXPECT_EQ(real_pages(), kSteps * kPagesAtOnce);
}

TEST_F(FirstTouchTest, AfterOneRoundThereIsNothingLeftToAskFor) {
    FirstTouch touch(memory_, size(), step(), FirstTouch::For::writing);
    EXPECT_EQ(touch.reach(size()), FirstTouch::kAll);
    EXPECT_EQ(touch.reach(10 * size()), FirstTouch::kAll);
}

TEST_F(FirstTouchTest, WhereACallFailsNothingIsLost) {
    ASSERT_EQ(munmap(memory_ + step(), step()), 0);
    FirstTouch touch(memory_, size(), step(), FirstTouch::For::reading);
    EXPECT_EQ(touch.reach(size() - 1), FirstTouch::kAll);
}

}  // namespace
}  // namespace verbena::link
