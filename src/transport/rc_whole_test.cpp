// Requests of one packet that wait leave without many questions: the same packets leave and the same
// completions come as of those that are asked, which an empty second element makes of them.
#include <gtest/gtest.h>

#include <random>

#include "transport/rc_outcome.h"

namespace verbena::transport {
namespace {

using testing::Harness;
using testing::Outcome;
using testing::Trouble;

constexpr std::size_t kTargets = 1 << 16;  // the upper half of the memory: receives, and what others write
constexpr std::uint32_t kBadKey = 0x00abcd00;

struct Program {
    bool asked = false;    // an empty element behind each
    bool by_host = false;  // the link is one to a peer of the same host: acknowledgements ride
    bool fails_at_last = false;
};

SendRequest any_request(Harness& h, int to, std::uint64_t number, std::mt19937& random) {
    static constexpr Operation kOperations[] = {
        Operation::send,       Operation::send,       Operation::send, Operation::send_with_immediate,
        Operation::rdma_write, Operation::rdma_write, Operation::send, Operation::rdma_read};
    SendRequest r = h.request(kOperations[random() % 8], number);
    r.remote_address = h.side[to].address(kTargets + random() % 1024 * 8);
    r.rkey = h.side[to].keys.rkey;
    r.immediate_or_key = static_cast<std::uint32_t>(number);
    r.flags = random() % 4 ? kSignaled : 0;
    if (random() % 4 == 0) r.flags |= kSolicited;
    if (random() % 8 == 0) r.flags |= kFence;
    return r;
}

void post(Harness& h, int from, SendRequest r, std::size_t offset, std::uint32_t length, const Program& p) {
    Sge sge = h.side[from].sge(offset, length);
    if (r.wr_id == 0) sge.lkey = kBadKey;
    if (p.asked)
        r.flags &= ~kInline;  // which has no elements; nobody changes the memory that it is taken from
    EXPECT_EQ(p.asked ? h.post(from, r, {sge, h.side[from].sge(offset, 0)}) : h.post(from, r, {sge}), 0);
}

Outcome converse(const Program& p, unsigned seed, const Trouble& trouble) {
    Harness h;
    h.memory_size = 1 << 17;
    h.capabilities = {2048, 2048, 2, 1, 64};
    for (auto& side : h.side) side.largest = p.by_host ? 1024 : 0;
    std::mt19937 network(seed), random(seed + 1);
    h.filter = [&](const testing::Sent&) { return trouble.fate(static_cast<unsigned>(network())); };
    h.start();
    for (int i = 0; i < 2; i++) h.fill(i, 0, kTargets, seed + static_cast<unsigned>(i));
    Outcome outcome;
    for (std::uint64_t round = 1; round <= 20; round++) {
        for (int from = 0; from < 2; from++) {
            const std::uint64_t count = 1 + random() % 60;  // some find the window closed
            for (std::uint64_t n = 0; n < count; n++) {
                const int to = 1 - from;
                static constexpr std::uint32_t kSizes[] = {0, 1, 8, 8, 60, 1023, 1024, 1025, 4000};
                SendRequest r = any_request(h, to, round * 100 + n, random);
                const bool read = r.operation == Operation::rdma_read;
                if (!read && r.operation != Operation::rdma_write)
                    h.post_receive(to, 10'000 + r.wr_id,
                                   {h.side[to].sge(kTargets + random() % 1024 * 8, 5000)});
                const std::uint32_t length = kSizes[random() % 9];
                if (length <= 60 && !read && random() % 4 == 0) r.flags |= kInline;
                post(h, from, r, (read ? kTargets : 0) + random() % 4096 * 8, length, p);
            }
        }
        h.run(random() % 3 ? 4 * kMillisecond : 30 * kMicrosecond);
        for (int polls = 0; polls < 3; polls++) outcome.take_completions(h);
    }
    h.run(10 * kSecond);
    for (int polls = 0; polls < 3; polls++) outcome.take_completions(h);
    if (p.fails_at_last) {
        for (std::uint64_t n : {1, 2, 0, 3})
            post(h, 0, h.request(Operation::rdma_write, n, kTargets), 0, 8, p);
        h.run(10 * kSecond);
    }
    outcome.end(h, !p.fails_at_last);
    return outcome;
}

class Whole : public ::testing::TestWithParam<Trouble> {};

TEST_P(Whole, IsTheSameAsWhatIsAsked) {
    for (unsigned seed = 1; seed <= 10; seed++)
        for (const bool by_host : {false, true}) {
            SCOPED_TRACE(seed);
            testing::expect_same(converse({.by_host = by_host}, seed, GetParam()),
                                 converse({.asked = true, .by_host = by_host}, seed, GetParam()));
        }
}

INSTANTIATE_TEST_SUITE_P(Rc, Whole,
                         ::testing::Values(Trouble{"none", 0, 0, 0, false}, Trouble{"losses", 2, 0, 0, false},
                                           Trouble{"disorder", 1, 2, 2, false}));

TEST(WholeWithABadKey, LetsThoseBeforeItLeave) {
    const Trouble none{"none", 0, 0, 0, false};
    const Outcome a = converse({.fails_at_last = true}, 3, none);
    testing::expect_same(a, converse({.asked = true, .fails_at_last = true}, 3, none));
    const auto& all = a.completions[0];
    ASSERT_GT(all.size(), 4u);
    const std::span last(all.end() - 4, all.end());
    EXPECT_EQ(last[1].status, completion::Status::success);
    EXPECT_EQ(last[2].status, completion::Status::local_protection_error);
    EXPECT_EQ(last[3].status, completion::Status::work_request_flushed);
}

}  // namespace
}  // namespace verbena::transport
