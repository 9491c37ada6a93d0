// Atomics on the straight path: the same packets, results and completions as on the long way.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <tuple>
#include <utility>

#include "transport/rc_outcome.h"

namespace verbena::transport {
namespace {

using testing::Harness;
using testing::Outcome;
using testing::Trouble;

constexpr std::size_t kWords = 512;     // at the beginning of each memory, which atomics change
constexpr std::size_t kResults = 8192;  // where their answers go

struct Exchange {
    Outcome outcome;
    unsigned asked = 0, answered = 0, concluded = 0;  // straight
};

// Both sides ask for atomics, with SENDs between them, more at a time than the other answers at once.
Exchange exchange(bool straight, bool copies, unsigned seed, const Trouble& trouble) {
    Harness h;
    h.straight = straight;
    h.memory_size = 1 << 16;
    h.capabilities = {64, 64, 2, 2, 64};
    for (auto& side : h.side) {
        side.largest = copies ? 4096 : 0;
        side.copies = copies;
    }
    // Each direction has a fate of its own: which side is the first to send at a time does not matter.
    std::mt19937 network[2] = {std::mt19937(seed), std::mt19937(seed + 2)}, program(seed + 1);
    h.filter = [&](const testing::Sent& sent) {
        return trouble.fate(static_cast<unsigned>(network[sent.from]()));
    };
    h.start();
    for (int i = 0; i < 2; i++) h.fill(i, 0, kResults, seed + static_cast<unsigned>(i));

    Exchange result;
    for (std::uint64_t round = 0; round < 80; round++) {
        if (copies)  // a full ring takes no copies
            for (auto& side : h.side) side.full = program() % 8 == 0;
        const int from = static_cast<int>(program() % 2);
        for (unsigned n = 0, requests = 1 + program() % 6; n < requests; n++) {
            const std::uint64_t id = round * 10 + n;
            if (program() % 6 == 0) {
                h.post_receive(1 - from, 1000 + id, {h.side[1 - from].sge(1 << 15, 64)});
                EXPECT_EQ(h.post(from, h.request(Operation::send, id), {h.side[from].sge(0, 64)}), 0);
                continue;
            }
            SendRequest r = h.request(program() % 2 ? Operation::fetch_add : Operation::compare_swap, id, 0,
                                      (program() % 4 ? kSignaled : 0) | (program() % 8 ? 0 : kFence));
            r.remote_address = h.side[1 - from].address(program() % kWords * 8);
            r.rkey = h.side[1 - from].keys.rkey;
            r.compare_add = program();
            r.swap = program();
            if (r.operation == Operation::compare_swap && program() % 2)  // one that succeeds, perhaps
                std::memcpy(&r.compare_add, reinterpret_cast<const void*>(r.remote_address), 8);
            const unsigned before = h.went_straight;
            EXPECT_EQ(h.post(from, r, {h.side[from].sge(kResults + id % 64 * 8, 8)}), 0);
            result.asked += h.went_straight - before;
        }
        h.run(program() % 3 ? 2 * kMillisecond : 30 * kMicrosecond);
        result.outcome.take_completions(h);
    }
    h.run(10 * kSecond);
    result.outcome.end(h);
    result.answered = h.answered_straight;
    result.concluded = h.concluded_straight;
    return result;
}

class StraightAtomic : public ::testing::TestWithParam<std::tuple<Trouble, bool>> {};

TEST_P(StraightAtomic, IsTheSameAsTheLongWay) {
    const auto& [trouble, copies] = GetParam();
    for (unsigned seed = 1; seed <= 20; seed++) {
        SCOPED_TRACE(seed);
        const Exchange a = exchange(false, copies, seed, trouble), b = exchange(true, copies, seed, trouble);
        EXPECT_GT(b.asked, 50u);
        EXPECT_GT(b.answered, 50u);
        EXPECT_GT(b.concluded, 50u);
        testing::expect_same(a.outcome, b.outcome);
    }
}

INSTANTIATE_TEST_SUITE_P(RcByPackets, StraightAtomic,
                         ::testing::Combine(::testing::Values(Trouble{"none", 0, 0, 0, false},
                                                              Trouble{"losses", 5, 0, 0, false},
                                                              Trouble{"disorder", 2, 5, 5, false}),
                                            ::testing::Values(false)));
INSTANTIATE_TEST_SUITE_P(RcInMemory, StraightAtomic,
                         ::testing::Combine(::testing::Values(Trouble{"none", 0, 0, 0, false},
                                                              Trouble{"repetitions", 0, 10, 0, false}),
                                            ::testing::Values(true)));

// One atomic that goes wrong behind one that went well.
enum class Mistake {
    wrong_key,
    behind_the_region,
    unaligned_in_memory,
    access_withdrawn,
    no_resources,
    result_gone,
    target_stops,
};

Outcome mistake(bool straight, Mistake what) {
    Harness h;
    h.straight = straight;
    h.memory_size = 1 << 16;
    for (auto& side : h.side) side.largest = 4096, side.copies = true;
    if (what == Mistake::no_resources) h.attributes[1].max_destination_rd_atomic = 0;
    if (what == Mistake::access_withdrawn) h.attributes[1].access = memory::kRemoteWrite;
    h.start();
    h.fill(0, 0, kResults, 1);
    h.fill(1, 0, kResults, 2);
    Outcome outcome;
    const auto ask = [&](std::uint64_t id, std::size_t offset, std::uint32_t key, std::size_t result) {
        SendRequest r = h.request(Operation::fetch_add, id, offset);
        r.rkey += key;
        r.compare_add = id;
        EXPECT_EQ(h.post(0, r, {h.side[0].sge(result, 8)}), 0);
        h.transmit(0, false);  // as the adapter does
    };
    if (what == Mistake::unaligned_in_memory) {  // aligned where it is mapped, not where it lies
        memory::Keys keys{};
        SendRequest r = h.request(Operation::fetch_add, 2, 1 << 15);
        EXPECT_EQ(h.side[1].regions.add(1, h.side[1].memory.data() + 4, 64, r.remote_address, h.access, keys),
                  0);
        r.rkey = keys.rkey;
        ask(1, 0, 0, kResults);
        h.run(kMillisecond);
        EXPECT_EQ(h.post(0, r, {h.side[0].sge(kResults, 8)}), 0);
    } else {
        ask(1, 0, 0, kResults);
        h.run(kMillisecond);
        if (what == Mistake::target_stops) {
            EXPECT_EQ(h.modify(1, QpState::error), 0);
        }
        ask(2, what == Mistake::behind_the_region ? h.memory_size : 8, what == Mistake::wrong_key ? 0x100 : 0,
            kResults + 8);
        if (what == Mistake::result_gone) {  // while the question is under way
            EXPECT_EQ(h.side[0].regions.remove(h.side[0].keys.lkey), 0);
        }
    }
    h.run(200 * kSecond);
    outcome.end(h, false);
    EXPECT_EQ(h.answered_straight > 0,
              straight && what != Mistake::no_resources && what != Mistake::access_withdrawn);
    return outcome;
}

class StraightAtomicMistake : public ::testing::TestWithParam<Mistake> {};

TEST_P(StraightAtomicMistake, EndsAsOnTheLongWay) {
    const Outcome a = mistake(false, GetParam()), b = mistake(true, GetParam());
    testing::expect_same(a, b, GetParam() != Mistake::target_stops);
    EXPECT_EQ(a.states[0], QpState::error);
}

INSTANTIATE_TEST_SUITE_P(Rc, StraightAtomicMistake,
                         ::testing::Values(Mistake::wrong_key, Mistake::behind_the_region,
                                           Mistake::unaligned_in_memory, Mistake::access_withdrawn,
                                           Mistake::no_resources, Mistake::result_gone,
                                           Mistake::target_stops));

// One takes no acknowledgement along: behind a message that does it goes straight, in front of it not.
TEST(StraightAtomicPath, GoesStraightInAListOnceNothingIsOwed) {
    for (const bool first : {false, true}) {
        Harness h;
        h.straight = true;
        h.polls = false;
        h.attributes[0].max_rd_atomic = 2;
        h.start();
        h.post_receive(0, 1, {h.side[0].sge(512, 64)});
        h.post_receive(1, 1, {h.side[1].sge(512, 64)});
        const Sge word = h.side[0].sge(0, 8), message = h.side[0].sge(64, 64);
        std::array<SendRequest, 2> list{h.request(Operation::send, 1),
                                        h.request(Operation::fetch_add, 2, 128)};
        list[0].sges = {&message, 1};
        list[1].sges = {&word, 1};
        if (first) std::swap(list[0], list[1]);
        ASSERT_EQ(h.post(1, h.request(Operation::send), {h.side[1].sge(0, 64)}), 0);
        h.run(30 * kMicrosecond);
        ASSERT_NE(h.side[0].qp->acknowledgement_deadline(), kNever) << "one is owed";
        const unsigned before = h.went_straight;
        ASSERT_EQ(h.post(0, list), 0);
        EXPECT_EQ(h.went_straight, before + (first ? 0 : 2));
        h.run(100 * kMillisecond);
        EXPECT_EQ(h.sends(0).size(), 2u);
    }
}

// What the caller does wrong is answered by the long way, with its reason.
TEST(StraightAtomicPath, LeavesMistakesToTheLongWay) {
    Harness h;
    h.straight = true;
    h.attributes[0].max_rd_atomic = 2;
    h.start();
    const auto goes = [&](SendRequest request, Sge sge) {
        request.sges = {&sge, 1};
        memory::Section section(h.side[0].sections);
        return h.side[0].qp->post_straight({&request, 1}, h.side[0], &h.side[0], h.now).count == 1;
    };
    const SendRequest r = h.request(Operation::fetch_add);
    Sge stale = h.side[0].sge(0, 8);
    stale.lkey += 0x100;
    EXPECT_FALSE(goes(r, stale));
    EXPECT_FALSE(goes(r, h.side[0].sge(0, 4)));
    EXPECT_FALSE(goes(r, h.side[0].sge(0, 16)));
    EXPECT_FALSE(goes(h.request(Operation::fetch_add, 1, 4), h.side[0].sge(0, 8)));
    EXPECT_FALSE(goes(h.request(Operation::fetch_add, 1, 0, kSignaled | kInline), h.side[0].sge(0, 8)));
    EXPECT_FALSE(goes(h.request(Operation::fetch_add, 1, 0, kSignaled | kFence), h.side[0].sge(0, 8)));
    EXPECT_TRUE(goes(r, h.side[0].sge(0, 8)));
    EXPECT_TRUE(goes(h.request(Operation::compare_swap), h.side[0].sge(8, 8)));
    EXPECT_FALSE(goes(r, h.side[0].sge(0, 8))) << "two are under way";
    ASSERT_EQ(h.modify(0, QpState::error), 0);
    EXPECT_FALSE(goes(r, h.side[0].sge(0, 8)));
}

}  // namespace
}  // namespace verbena::transport
