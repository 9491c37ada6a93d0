// Two processes of one host: large WRITEs and READs, several under way, which both may copy at the same time,
// once that has been found to be faster (src/transport/rc_halves.cpp).
#include <algorithm>
#include <array>
#include <thread>

#include "neighbor.h"

namespace verbena::verbs_test {
namespace {

constexpr std::size_t kPlace = 1 << 20, kPlaces = 4;

struct Progress {
    std::atomic<std::uint64_t> address;
    std::atomic<std::uint64_t> wanted, looked_at;  // rounds
    std::atomic<std::uint32_t> key;
    std::atomic<bool> ends;
};

// At the memory that the peer tells of.
void aim_at(Here& here, const Progress& progress) {
    EXPECT_TRUE(wait_until([&] { return progress.address != 0; }));
    here.peer.memory = progress.address;
    here.peer.rkey = progress.key;
}

std::size_t large_length(std::uint64_t round, std::size_t place) {
    constexpr std::array<std::size_t, 5> kLengths = {kPlace, kPlace, 512 << 10, 600'008, kPlace - 8};
    return kLengths[(round / 64 + place) % kLengths.size()];
}

std::uint64_t word_of(std::uint64_t round, std::size_t at) { return round << 32 | at; }

void fill(Memory& memory, std::uint64_t round) {
    for (std::size_t place = 0; place < kPlaces; place++)
        for (std::size_t at = 0; at < large_length(round, place) / 8; at++)
            memory.set_word(place * kPlace / 8 + at, word_of(round, at));
}

// All places together, from or to the peer's.
void copy_all(Here& here, Memory& ours, ibv_wr_opcode opcode, std::uint64_t round) {
    std::array<ibv_sge, kPlaces> sges;
    std::vector<Request> list;
    for (std::size_t place = 0; place < kPlaces; place++) {
        sges[place] = ours.sge(place * kPlace, large_length(round, place));
        list.emplace_back(place, opcode, &sges[place], 1);
        here.aim(list.back(), place * kPlace);
    }
    for (std::size_t place = 0; place + 1 < kPlaces; place++) list[place].next = &list[place + 1];
    ASSERT_EQ(list[0].post(here.side.qp), 0);
    for (std::size_t place = 0; place < kPlaces; place++) success(here.side.send_cq);
}

// Whoever polls the last word of a WRITE finds all of it, and all of those before it.
void poll_last_words(Here& there, Progress& progress) {
    Memory into(there.side.pd, kPlaces * kPlace);
    progress.key = into.mr->rkey;
    progress.address = into.address();
    for (std::uint64_t round = 1, stale = 0; !progress.ends; round++) {
        for (std::size_t place = kPlaces; place-- > 0;) {
            const std::size_t first = place * kPlace / 8, words = large_length(round, place) / 8;
            while (into.load_word(first + words - 1) != word_of(round, words - 1))
                if (progress.ends) return;
            for (std::size_t at = 0; at < words; at++)
                stale += into.load_word(first + at) != word_of(round, at);
        }
        ASSERT_EQ(stale, 0u) << "words were not there in round " << round;
        progress.looked_at = round;
    }
}

TEST(Neighbor, LargeWritesAreThereWithTheirLastWord) {
    Shared<Progress> progress;
    Neighbor neighbor([&](Here& there) {
        poll_last_words(there, *progress);
        there.meet();
    });
    Here here(neighbor.in, neighbor.out);
    Memory from(here.side.pd, kPlaces * kPlace);
    aim_at(here, *progress);
    const auto until = Clock::now() + std::chrono::seconds(2);
    for (std::uint64_t round = 1; Clock::now() < until && !HasFailure(); round++) {
        fill(from, round);
        copy_all(here, from, IBV_WR_RDMA_WRITE, round);
        EXPECT_TRUE(wait_until([&] { return progress->looked_at == round; })) << "round " << round;
    }
    progress->ends = true;
    here.meet();
    neighbor.end(0);
}

TEST(Neighbor, LargeReadsAreThereWithTheirCompletion) {
    Shared<Progress> progress;
    std::atomic<std::uint64_t>& filled = progress->looked_at;
    Neighbor neighbor([&](Here& there) {
        Memory from(there.side.pd, kPlaces * kPlace);
        progress->key = from.mr->rkey;
        progress->address = from.address();
        while (!progress->ends)
            if (const std::uint64_t round = progress->wanted; round != filled) {
                fill(from, round);
                filled = round;
            }
        there.meet();
    });
    Here here(neighbor.in, neighbor.out);
    Memory into(here.side.pd, kPlaces * kPlace);
    aim_at(here, *progress);
    const auto until = Clock::now() + std::chrono::seconds(2);
    for (std::uint64_t round = 1; Clock::now() < until && !HasFailure(); round++) {
        progress->wanted = round;
        ASSERT_TRUE(wait_until([&] { return filled == round; })) << "round " << round;
        copy_all(here, into, IBV_WR_RDMA_READ, round);
        std::uint64_t wrong = 0;
        for (std::size_t place = 0; place < kPlaces; place++)
            for (std::size_t at = 0; at < large_length(round, place) / 8; at++)
                wrong += into.load_word(place * kPlace / 8 + at) != word_of(round, at);
        EXPECT_EQ(wrong, 0u) << "words were not there in round " << round;
    }
    progress->ends = true;
    here.meet();
    neighbor.end(0);
}

// At any moment: memory is the program's again when its READs are flushed, whatever the peer was doing.
TEST(Neighbor, NobodyWritesAnAnswerWhenItsReadIsFlushed) {
    constexpr std::uint64_t kOurs = 0x1234'5678'9abc'def0, kAtOnce = 8;
    constexpr std::chrono::microseconds kLatest{120'000};
    Chance chance;
    for (unsigned round = 0; round < 8 && !HasFailure(); round++) {
        Neighbor neighbor([](Here& there) { there.meet(); });
        Here here(neighbor.in, neighbor.out);
        std::thread ends([&, later = chance.up_to(kLatest)] {
            std::this_thread::sleep_for(later);
            EXPECT_EQ(here.side.to_state(IBV_QPS_ERR), 0);
        });
        ibv_wc wc{};
        std::uint64_t posted = 0;
        for (std::uint64_t done = 0; done < posted || wc.status == IBV_WC_SUCCESS; done++) {
            for (; posted < done + kAtOnce && wc.status == IBV_WC_SUCCESS; posted++)
                ASSERT_EQ(here.post(IBV_WR_RDMA_READ, kSize, 0, posted), 0);
            wc = completion(here.side.send_cq);
        }
        EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
        for (std::size_t at = 0; at < kSize / 8; at++) here.memory.set_word(at, kOurs);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        std::uint64_t wrong = 0;
        for (std::size_t at = 0; at < kSize / 8; at++) wrong += here.memory.load_word(at) != kOurs;
        EXPECT_EQ(wrong, 0u) << "words were written in round " << round;
        ends.join();
        here.meet();
        neighbor.end(0);
    }
}

}  // namespace
}  // namespace verbena::verbs_test
