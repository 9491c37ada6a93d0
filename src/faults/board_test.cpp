#include "faults/board.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "faults/parse.h"

namespace verbena::faults {
namespace {

std::unique_ptr<Board> board_with(const char* plan) {
    std::vector<PlannedRule> rules;
    PlanError error;
    EXPECT_TRUE(parse_plan(plan, rules, error)) << error.to_string();
    auto board = Board::create("");
    for (const PlannedRule& each : rules) EXPECT_TRUE(board->add(each.rule, each.text));
    return board;
}

std::string firings(Board& board, unsigned index, unsigned times) {
    std::string out;
    for (unsigned i = 0; i < times; i++) out += board.meets(index) ? 'x' : '.';
    return out;
}

TEST(Board, CountsToTheNth) {
    auto board = board_with("drop nth=3; drop nth=2..4; drop nth=4..; drop times=2; drop nth=2.. times=1");
    EXPECT_EQ(firings(*board, 0, 6), "..x...");
    EXPECT_EQ(firings(*board, 1, 6), ".xxx..");
    EXPECT_EQ(firings(*board, 2, 6), "...xxx");
    EXPECT_EQ(firings(*board, 3, 6), "xx....");
    EXPECT_EQ(firings(*board, 4, 6), ".x....");
    EXPECT_EQ(board->seen(0), 6u);
    EXPECT_EQ(board->fired(0), 1u);
    EXPECT_EQ(board->fired(1), 3u);
}

TEST(Board, ChancesAreRepeatable) {
    const char* plan = "drop probability=0.1 seed=7";
    auto first = board_with(plan), again = board_with(plan);
    auto other = board_with("drop probability=0.1 seed=8");
    const std::string fired = firings(*first, 0, 10000);
    EXPECT_EQ(fired, firings(*again, 0, 10000));
    EXPECT_NE(fired, firings(*other, 0, 10000));
    EXPECT_GT(first->fired(0), 900u);
    EXPECT_LT(first->fired(0), 1100u);
    // On every machine, in every build.
    EXPECT_EQ(fired.substr(0, 40), firings(*board_with(plan), 0, 40));
}

TEST(Board, IsTheSameForWhoeverOpensIt) {
    const std::string path = "/tmp/verbena-board-test." + std::to_string(getpid());
    unlink(path.c_str());
    auto ours = Board::create(path);
    ASSERT_TRUE(ours);
    EXPECT_FALSE(Board::create(path));
    auto theirs = Board::open(path);
    auto by_descriptor = Board::from(ours->fd());
    unlink(path.c_str());
    ASSERT_TRUE(theirs && by_descriptor);
    EXPECT_TRUE(theirs->is_same_as(*ours));
    EXPECT_FALSE(theirs->is_same_as(*Board::create("")));
    std::vector<PlannedRule> rules;
    PlanError error;
    ASSERT_TRUE(parse_plan("drop nth=2", rules, error));
    ASSERT_TRUE(ours->add(rules[0].rule, rules[0].text));
    ASSERT_EQ(theirs->count(), 1u);
    EXPECT_STREQ(theirs->text(0), "drop nth=2");
    EXPECT_FALSE(theirs->meets(0));
    EXPECT_TRUE(by_descriptor->meets(0));
    EXPECT_EQ(ours->fired(0), 1u);
    theirs->clear();
    EXPECT_FALSE(ours->active(0));
}

TEST(Board, RefusesWhatIsNone) {
    EXPECT_FALSE(Board::open("/nowhere/at/all"));
    EXPECT_FALSE(Board::open("/dev/null"));
    EXPECT_FALSE(Board::open("/proc/self/exe"));
}

TEST(Board, HasAnEnd) {
    auto board = Board::create("");
    for (unsigned i = 0; i < kMaxRules; i++) ASSERT_TRUE(board->add({}, "drop"));
    EXPECT_FALSE(board->add({}, "drop"));
    EXPECT_EQ(board->count(), kMaxRules);
}

}  // namespace
}  // namespace verbena::faults
