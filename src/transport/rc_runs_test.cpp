// Runs are many packets at a time and nothing else: the same packets leave and the same completions come as
// when each goes by itself.
#include <gtest/gtest.h>

#include <random>
#include <tuple>

#include "transport/rc_outcome.h"

namespace verbena::transport {
namespace {

using testing::Harness;
using testing::Outcome;
using testing::Trouble;

struct RunOutcome : Outcome {
    unsigned in_runs = 0;
};

// Long SENDs, WRITEs and READs in both directions.
RunOutcome converse(unsigned sent, bool received, unsigned seed, const Trouble& trouble) {
    Harness h;
    h.runs = received;
    h.memory_size = 1 << 18;
    h.capabilities = {256, 256, 3, 3, 64};
    for (auto& side : h.side) side.run = sent;
    std::mt19937 network(seed), program(seed + 1);
    h.filter = [&](const testing::Sent&) { return trouble.fate(static_cast<unsigned>(network())); };
    h.start();
    for (int i = 0; i < 2; i++) h.fill(i, 0, 1 << 17, seed + static_cast<unsigned>(i));

    constexpr std::size_t kTargets = 1 << 17;  // the upper half: receives, and what others write
    RunOutcome outcome;
    for (std::uint64_t round = 0; round < 20; round++) {
        const int from = static_cast<int>(program() % 2);
        const unsigned messages = 1 + program() % 3;
        const auto receive = [&] {
            for (unsigned n = 0; n < messages; n++) {
                const std::size_t offset = kTargets + program() % 2048 * 8;
                const std::uint32_t cut = program() % 2 ? 3000 : 40'000;  // sometimes inside a run
                h.post_receive(
                    1 - from, 1000 + round * 10 + n,
                    {h.side[1 - from].sge(offset, cut), h.side[1 - from].sge(offset + cut, 40'000)});
            }
        };
        if (!trouble.short_of_receives) receive();
        for (unsigned n = 0; n < messages; n++) {
            static constexpr Operation kOperations[] = {Operation::send, Operation::rdma_write,
                                                        Operation::rdma_read};
            static constexpr std::uint32_t kSizes[] = {1024, 2048, 2049, 4096, 20'000, 33 * 1024, 38'001};
            const std::uint32_t length = kSizes[program() % 7];
            const Operation operation = kOperations[program() % 3];
            SendRequest r = h.request(operation, round * 10 + n, kTargets + program() % 4096);
            r.remote_address = h.side[1 - from].address(kTargets + program() % 4096);
            r.rkey = h.side[1 - from].keys.rkey;
            const std::size_t offset = (operation == Operation::rdma_read ? kTargets : 0) + program() % 4096;
            const std::uint32_t cut = program() % 2 ? length / 3 : 0;
            EXPECT_EQ(h.post(from, r,
                             {h.side[from].sge(offset, cut), h.side[from].sge(offset + cut, length - cut)}),
                      0);
        }
        h.run(program() % 3 ? 4 * kMillisecond : 30 * kMicrosecond);
        if (trouble.short_of_receives) receive();
        h.run(program() % 3 ? 4 * kMillisecond : 30 * kMicrosecond);
        outcome.take_completions(h);
    }
    h.run(10 * kSecond);
    outcome.end(h);
    outcome.in_runs = h.came_in_runs;
    return outcome;
}

class Runs : public ::testing::TestWithParam<Trouble> {};

TEST_P(Runs, AreTheSameAsSinglePackets) {
    for (unsigned seed = 1; seed <= 10; seed++) {
        SCOPED_TRACE(seed);
        const RunOutcome single = converse(1, false, seed, GetParam());
        for (const unsigned sent : {1u, 5u, 64u}) {
            SCOPED_TRACE(sent);
            const RunOutcome runs = converse(sent, true, seed, GetParam());
            EXPECT_GT(runs.in_runs, 50u);
            testing::expect_same(single, runs);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Rc, Runs,
                         ::testing::Values(Trouble{"none", 0, 0, 0, false}, Trouble{"losses", 2, 0, 0, false},
                                           Trouble{"disorder", 1, 2, 2, false},
                                           Trouble{"receives come late", 1, 0, 0, true}));

}  // namespace
}  // namespace verbena::transport
