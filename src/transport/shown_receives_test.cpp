#include "transport/shown_receives.h"

#include <gtest/gtest.h>

namespace verbena::transport {
namespace {

class Shown : public ::testing::Test {
   protected:
    void post(unsigned count, unsigned elements = 1) {
        for (; count > 0; count--, posted_++) {
            const std::vector<Sge> sges(elements, Sge{0x1000u * (posted_ + 1), 100 + posted_, 0x700});
            ASSERT_EQ(queue_.post({posted_, sges}), 0);
        }
    }
    void take(unsigned count) {
        for (; count > 0; count--) queue_.drop_oldest();
    }
    bool shows(std::uint32_t receive) const {
        const auto found = shown_.find(receive);
        return found && found->address == 0x1000u * (receive + 1) && found->length == 100 + receive &&
               found->lkey == 0x700;
    }

    static constexpr std::uint64_t kReceived = 1000;
    ReceiveQueue queue_{64, 4};
    ShownReceives shown_{};
    std::uint32_t posted_ = 0;
};

TEST_F(Shown, NothingAtFirst) {
    EXPECT_FALSE(shown_.is_shown());
    EXPECT_FALSE(shown_.next(kReceived));
    for (std::uint32_t receive = 0; receive < 20; receive++) EXPECT_FALSE(shown_.find(receive));
}

TEST_F(Shown, TheNextMessageTakesTheOldest) {
    post(5);
    take(2);
    shown_.show(queue_, 0xfffffe, kReceived);
    ASSERT_TRUE(shown_.next(kReceived));
    EXPECT_EQ(shown_.next(kReceived)->psn, 0xfffffeu);
    EXPECT_EQ(shown_.next(kReceived)->receive, 2u);
    EXPECT_TRUE(shown_.next(kReceived + 1));
    EXPECT_FALSE(shown_.next(kReceived + 2));
    for (std::uint32_t receive = 0; receive < 8; receive++)
        EXPECT_EQ(shows(receive), receive >= 2 && receive < 5) << receive;
}

TEST_F(Shown, AreSoManyAtATime) {
    post(2 * ShownReceives::kMost);
    for (std::uint32_t taken = 0; taken < ShownReceives::kMost; taken++) {
        shown_.show(queue_, taken, kReceived);
        EXPECT_EQ(shown_.next(kReceived)->receive, taken);
        EXPECT_TRUE(shows(taken));
        EXPECT_TRUE(shows(taken + ShownReceives::kMost - 1));
        EXPECT_FALSE(shown_.find(taken + ShownReceives::kMost));
        take(1);
    }
}

// Others took some in between, which was not shown.
TEST_F(Shown, GoOnBehindAGap) {
    post(4);
    shown_.show(queue_, 1, kReceived);
    take(4);
    post(20);
    take(9);
    shown_.show(queue_, 2, kReceived);
    EXPECT_EQ(shown_.next(kReceived)->receive, 13u);
    EXPECT_FALSE(shown_.find(12));
    for (std::uint32_t receive = 13; receive < 13 + ShownReceives::kMost; receive++)
        EXPECT_TRUE(shows(receive)) << receive;
}

TEST_F(Shown, SeveralElementsAreNoRoom) {
    post(1, 2);
    shown_.show(queue_, 1, kReceived);
    ASSERT_TRUE(shown_.find(0));
    EXPECT_EQ(shown_.find(0)->length, 0u);
}

TEST_F(Shown, WithdrawnAreGone) {
    post(3);
    shown_.show(queue_, 1, kReceived);
    shown_.withdraw();
    EXPECT_FALSE(shown_.is_shown());
    for (std::uint32_t receive = 0; receive < 3; receive++) EXPECT_FALSE(shown_.find(receive));
    take(1);
    shown_.show(queue_, 2, kReceived);
    EXPECT_FALSE(shown_.find(0));
    EXPECT_TRUE(shows(1));
}

TEST_F(Shown, AnswersMayBeWrittenUntilAllIsWithdrawn) {
    EXPECT_FALSE(shown_.takes_answers());
    EXPECT_FALSE(shown_.takes_answer(77));
    const std::uint64_t right = shown_.right_to_answer(77);
    EXPECT_EQ(ShownReceives::lkey_of(right), 77u);
    EXPECT_TRUE(shown_.takes_answer(right));
    EXPECT_TRUE(shown_.takes_answer(shown_.right_to_answer(78)));
    EXPECT_FALSE(shown_.is_shown()) << "no receives";
    shown_.withdraw();
    EXPECT_FALSE(shown_.takes_answers());
    EXPECT_FALSE(shown_.takes_answer(right));
    EXPECT_TRUE(shown_.takes_answer(shown_.right_to_answer(77)));
    EXPECT_FALSE(shown_.takes_answer(right));
}

TEST_F(Shown, NoNameIsNone) { EXPECT_FALSE(shown_.find(~0u)); }

}  // namespace
}  // namespace verbena::transport
