// The simulator's own parts: what judges others must be right itself.
#include <gtest/gtest.h>

#include "sim/arena.h"
#include "sim/mutations.h"
#include "sim/run_seed.h"
#include "sim/shared_words.h"

namespace verbena::sim {
namespace {

SharedAtomic fetch_add(std::uint64_t original, std::uint64_t add) { return {true, add, 0, true, original}; }
SharedAtomic swap(std::uint64_t original, std::uint64_t compare, std::uint64_t to) {
    return {false, compare, to, true, original};
}
SharedAtomic unknown_add(std::uint64_t add) { return {true, add, 0, false, 0}; }

TEST(SharedWords, AChainInAnyOrderOfCompletion) {
    EXPECT_TRUE(linearizable(10, 10, {}));
    EXPECT_TRUE(linearizable(10, 106, {swap(13, 13, 100), fetch_add(100, 6), fetch_add(10, 3)}));
    EXPECT_TRUE(linearizable(10, 13, {fetch_add(10, 3), swap(10, 77, 5)}));  // a failed swap saw the 10
}

TEST(SharedWords, NoHistory) {
    EXPECT_FALSE(linearizable(10, 11, {}));
    EXPECT_FALSE(
        linearizable(10, 13, {fetch_add(10, 3), fetch_add(10, 3)}));          // executed once, answered twice
    EXPECT_FALSE(linearizable(10, 16, {fetch_add(10, 3)}));                   // executed twice
    EXPECT_FALSE(linearizable(10, 13, {fetch_add(10, 3), swap(12, 77, 5)}));  // saw what never was there
}

TEST(SharedWords, WhatFailedMayHaveHappenedOrNot) {
    EXPECT_TRUE(linearizable(10, 13, {fetch_add(10, 3), unknown_add(100)}));
    EXPECT_TRUE(linearizable(10, 113, {fetch_add(110, 3), unknown_add(100)}));
    EXPECT_FALSE(linearizable(10, 213, {fetch_add(10, 3), unknown_add(100)}));  // not twice
}

TEST(Pattern, PrefixEndsAtTheFirstWrongByte) {
    std::vector<std::uint8_t> data(100);
    fill_pattern(7, 3, data);
    EXPECT_EQ(matching_prefix(7, 3, data), 100u);
    EXPECT_EQ(data[20], pattern_byte(7, 23));
    data[41] ^= 1;
    EXPECT_EQ(matching_prefix(7, 3, data), 41u);
    EXPECT_LT(matching_prefix(8, 3, data), 4u);
}

TEST(Arena, ShowsTheByteThatChanged) {
    Arena arena;
    const std::uint32_t at = arena.reserve(10, 8);
    arena.allocate(1);
    EXPECT_EQ(arena.first_difference(), arena.size());
    arena.address(at)[3] ^= 0xff;
    EXPECT_EQ(arena.first_difference(), at + 3);
    arena.accept(at, 10);
    EXPECT_EQ(arena.first_difference(), arena.size());
}

TEST(Seeds, MeanTheSameRunEachTime) {
    for (std::uint64_t seed = 1; seed <= 40; seed++) {
        const Outcome first = run_seed(seed), second = run_seed(seed);
        EXPECT_EQ(first.violation, "") << seed;
        EXPECT_EQ(first.coverage.packets, second.coverage.packets) << seed;
        EXPECT_EQ(first.coverage.events, second.coverage.events) << seed;
        EXPECT_EQ(first.coverage.losses, second.coverage.losses) << seed;
        EXPECT_EQ(first.coverage.send_statuses, second.coverage.send_statuses) << seed;
        EXPECT_EQ(first.coverage.directly, second.coverage.directly) << seed;
    }
}

TEST(Mutations, HaveNamesAndNumbers) {
    EXPECT_GE(all_mutations().size(), 12u);
    EXPECT_EQ(find_mutation("fence_ignored"), Mutation::fence_ignored);
    EXPECT_EQ(find_mutation("1"), all_mutations().front());
    EXPECT_EQ(find_mutation("0"), Mutation::none);
    EXPECT_EQ(find_mutation("99"), Mutation::none);
    EXPECT_EQ(find_mutation("no such thing"), Mutation::none);
}

}  // namespace
}  // namespace verbena::sim
