// Two processes of one host: in which order what one does is seen by the other, by whatever ways it travels.
#include "neighbor.h"

namespace verbena::verbs_test {
namespace {

// IBA 9.5: a WRITE behind a SEND that finds no receive is not seen before it.
TEST(Neighbor, AWriteDoesNotOvertakeASend) {
    Neighbor neighbor([](Here& there) {
        there.meet();
        there.meet();
        EXPECT_EQ(there.memory.word(64), 0u);
        EXPECT_EQ(there.side.post_receive(9, there.memory.sge(8, 8)), 0);
        success(there.side.receive_cq);
        EXPECT_TRUE(wait_until([&] { return there.memory.load_word(512 / 8) == 5; }));
        there.meet();
    });
    Here here(neighbor.in, neighbor.out);
    here.meet();
    here.memory.set_word(64, 5);
    ASSERT_EQ(here.post(IBV_WR_SEND, 8), 0);
    ASSERT_EQ(here.post(IBV_WR_RDMA_WRITE, 8, 512, 2), 0);
    const auto until = Clock::now() + std::chrono::milliseconds(50);
    while (Clock::now() < until) EXPECT_TRUE(empty(here.side.send_cq));
    here.meet();
    EXPECT_EQ(success(here.side.send_cq).wr_id, 1u);
    EXPECT_EQ(success(here.side.send_cq).wr_id, 2u);
    here.meet();
}

// A SEND that finds no receive and may not be sent again: nothing behind it is executed, by whichever way it
// would have gone. The first of the SENDs find theirs.
struct Failing {
    std::size_t send, write;
    int receives;
    bool together;  // posted as one list
};

void fail_behind(const Failing& how) {
    Options options;
    options.rnr_retry = 0;
    Neighbor neighbor(
        [&](Here& there) {
            Memory into(there.side.pd, kSize);
            there.memory.set_all(0xaa);
            for (int i = 0; i < how.receives; i++)
                EXPECT_EQ(there.side.post_receive(9, into.sge(0, kSize)), 0);
            there.meet();
            there.meet();
            for (std::size_t i = 0; i < kSize; i++) ASSERT_EQ(there.memory.data()[i], 0xaa) << i;
            for (int i = 0; i < how.receives; i++)
                EXPECT_EQ(success(there.side.receive_cq).byte_len, how.send);
            EXPECT_TRUE(empty(there.side.receive_cq));
        },
        options);
    Here here(neighbor.in, neighbor.out, options);
    here.memory.set_all(0x55);
    here.meet();
    ibv_sge sent = here.memory.sge(0, how.send), written = here.memory.sge(0, how.write);
    const int sends = how.receives + 1;
    std::vector<Request> list;
    for (int i = 0; i < sends; i++) list.emplace_back(i, IBV_WR_SEND, &sent, 1);
    list.emplace_back(sends, IBV_WR_RDMA_WRITE, &written, 1);
    list.emplace_back(sends + 1, IBV_WR_RDMA_READ, &written, 1);
    list.emplace_back(sends + 2, IBV_WR_RDMA_WRITE, &written, 1);
    for (int i = sends; i < sends + 3; i++) here.aim(list[i], 0);
    for (std::size_t i = 0; how.together && i + 1 < list.size(); i++) list[i].next = &list[i + 1];
    for (std::size_t i = 0; i < (how.together ? 1 : list.size()); i++)
        ASSERT_EQ(list[i].post(here.side.qp), 0);
    for (int i = 0; i < sends + 3; i++) {
        const ibv_wc wc = completion(here.side.send_cq);
        EXPECT_EQ(wc.wr_id, static_cast<std::uint64_t>(i));
        const ibv_wc_status due = i < how.receives    ? IBV_WC_SUCCESS
                                  : i == how.receives ? IBV_WC_RNR_RETRY_EXC_ERR
                                                      : IBV_WC_WR_FLUSH_ERR;
        EXPECT_EQ(wc.status, due) << ibv_wc_status_str(wc.status) << " of request " << i;
    }
    EXPECT_EQ(here.side.state(), IBV_QPS_ERR);
    EXPECT_EQ(here.memory.data()[0], 0x55);
    here.meet();
}

TEST(Neighbor, NothingIsWrittenBehindASendThatFails) {
    for (const std::size_t send : {std::size_t{8}, std::size_t{64 << 10}, kSize})
        for (const std::size_t write : {std::size_t{8}, std::size_t{4096}, kSize})
            for (const int receives : {0, 2})
                for (const bool together : {true, false}) {
                    SCOPED_TRACE(testing::Message()
                                 << "SEND of " << send << ", WRITE of " << write << ", " << receives
                                 << " receives, " << (together ? "one list" : "one by one"));
                    fail_behind({send, write, receives, together});
                }
}

// However they travel: large ones are executed while few are under way, and else leave as packets. All go to
// one place; the first and the last word of each are its number.
TEST(Neighbor, LargeWritesAreSeenInTheirOrder) {
    constexpr std::size_t kLength = 64 << 10;
    constexpr std::uint64_t kMost = 12, kWrites = 6000;
    Neighbor neighbor([](Here& there) {
        there.meet();
        unsigned torn = 0, stale = 0, late = 0;
        const auto until = Clock::now() + std::chrono::seconds(60);
        for (std::uint64_t last = 0; last >> 32 != kWrites;) {
            const std::uint64_t seen = there.memory.load_word(kLength / 8 - 1);
            if (seen == last) {
                ASSERT_TRUE(empty(there.side.send_cq));  // so that packets are taken in
                ASSERT_LT(Clock::now(), until);
                continue;
            }
            if ((seen & 0xffffffff) != seen >> 32) torn++;
            if (seen < last) late++;
            if (there.memory.load_word(0) < seen) stale++;
            last = seen;
        }
        EXPECT_EQ(torn, 0u);
        EXPECT_EQ(stale, 0u);
        EXPECT_EQ(late, 0u);
        there.meet();
    });
    Here here(neighbor.in, neighbor.out);
    here.meet();
    for (std::uint64_t number = 1, most = 1; number <= kWrites; most = most % kMost + 1) {
        std::uint64_t under_way = 0;
        for (; under_way < most && number <= kWrites; under_way++, number++) {
            const std::size_t from = under_way * kLength;
            for (const std::size_t at : {from, from + kLength - 8})
                here.memory.set_word(at / 8, number << 32 | number);
            ASSERT_EQ(here.post(IBV_WR_RDMA_WRITE, kLength, from, 0, number), 0);
        }
        for (; under_way > 0; under_way--) success(here.side.send_cq);
    }
    here.meet();
}

// Of lengths that the sender writes into receives by itself, and others in between.
TEST(Neighbor, LargeSendsArriveWhole) {
    constexpr std::size_t kSlots = 4, kSlot = std::size_t{3} << 20, kMessages = 120;
    const auto length = [](std::size_t message) {
        constexpr std::size_t kLengths[] = {512 << 10, 600008, 1 << 20, 1 << 20, 8, kSlot, 1 << 20, 100008};
        return kLengths[message / 5 % std::size(kLengths)];
    };
    const auto word = [](std::size_t message, std::size_t at) { return message << 32 | at; };
    Neighbor neighbor([&](Here& there) {
        Memory into(there.side.pd, kSlots * kSlot);
        const auto post = [&](std::size_t slot) {
            EXPECT_EQ(there.side.post_receive(slot, into.sge(slot * kSlot, kSlot)), 0);
        };
        for (std::size_t slot = 0; slot < kSlots; slot++) post(slot);
        there.meet();
        for (std::size_t message = 0; message < kMessages; message++) {
            const std::size_t slot = message % kSlots, first = slot * kSlot / 8;
            const ibv_wc wc = success(there.side.receive_cq);
            EXPECT_EQ(wc.wr_id, slot);
            ASSERT_EQ(wc.byte_len, length(message));
            for (std::size_t at = 0; at < wc.byte_len / 8; at++)
                ASSERT_EQ(into.word(first + at), word(message, at)) << message << " at " << at;
            post(slot);
        }
        there.meet();
    });
    Here here(neighbor.in, neighbor.out);
    Memory from(here.side.pd, kSlots * kSlot);
    here.meet();
    for (std::size_t message = 0; message < kMessages; message++) {
        const std::size_t slot = message % kSlots, first = slot * kSlot / 8;
        if (message >= kSlots) success(here.side.send_cq);
        for (std::size_t at = 0; at < length(message) / 8; at++) from.set_word(first + at, word(message, at));
        ibv_sge sge = from.sge(slot * kSlot, length(message));
        ASSERT_EQ(Request(message, IBV_WR_SEND, &sge, 1).post(here.side.qp), 0);
    }
    for (std::size_t slot = 0; slot < kSlots; slot++) success(here.side.send_cq);
    here.meet();
    neighbor.end(0);
}

}  // namespace
}  // namespace verbena::verbs_test
