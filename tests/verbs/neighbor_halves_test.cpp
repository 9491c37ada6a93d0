// Two processes of one host: large WRITEs, several under way, which both may copy at the same time, once that
// has been found to be faster (src/transport/rc_halves.cpp).
#include <algorithm>
#include <array>
#include <thread>

#include "neighbor.h"

namespace verbena::verbs_test {
namespace {

constexpr std::size_t kPlace = 1 << 20, kPlaces = 4;

struct Progress {
    std::atomic<std::uint64_t> address, looked_at;  // rounds
    std::atomic<std::uint32_t> key;
    std::atomic<bool> ends;
};

std::size_t large_length(std::uint64_t round, std::size_t place) {
    constexpr std::array<std::size_t, 5> kLengths = {kPlace, kPlace, 512 << 10, 600'008, kPlace - 8};
    return kLengths[(round / 64 + place) % kLengths.size()];
}

std::uint64_t word_of(std::uint64_t round, std::size_t at) { return round << 32 | at; }

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
    ASSERT_TRUE(wait_until([&] { return progress->address != 0; }));
    here.peer.memory = progress->address;
    here.peer.rkey = progress->key;
    const auto until = Clock::now() + std::chrono::seconds(2);
    for (std::uint64_t round = 1; Clock::now() < until && !HasFailure(); round++) {
        std::vector<ibv_sge> sges;
        std::vector<Request> list;
        sges.reserve(kPlaces);
        for (std::size_t place = 0; place < kPlaces; place++) {
            const std::size_t length = large_length(round, place);
            for (std::size_t at = 0; at < length / 8; at++)
                from.set_word(place * kPlace / 8 + at, word_of(round, at));
            sges.push_back(from.sge(place * kPlace, length));
            list.emplace_back(place, IBV_WR_RDMA_WRITE, &sges.back(), 1);
            here.aim(list.back(), place * kPlace);
        }
        for (std::size_t place = 0; place + 1 < kPlaces; place++) list[place].next = &list[place + 1];
        ASSERT_EQ(list[0].post(here.side.qp), 0);
        for (std::size_t place = 0; place < kPlaces; place++) success(here.side.send_cq);
        EXPECT_TRUE(wait_until([&] { return progress->looked_at == round; })) << "round " << round;
    }
    progress->ends = true;
    here.meet();
    neighbor.end(0);
}

}  // namespace
}  // namespace verbena::verbs_test
