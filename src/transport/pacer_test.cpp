#include "transport/pacer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "transport/rc_harness.h"

namespace verbena::transport {
namespace {

constexpr Time kBegin = 5 * kSecond;

TEST(Pacer, WithoutALimitEverythingMayLeave) {
    Pacer pacer;
    for (int i = 0; i < 1000; i++) {
        pacer.sent(4096, kBegin);
        EXPECT_TRUE(pacer.allows(kBegin));
    }
}

// 8000 kbit/s: a byte in a microsecond.
TEST(Pacer, ABurstAndThenTheRate) {
    Pacer pacer;
    pacer.limit(8000, 3000);
    Time now = kBegin;
    int at_once = 0;
    for (; pacer.allows(now); at_once++) pacer.sent(1000, now);
    EXPECT_EQ(at_once, 3);
    EXPECT_EQ(pacer.next(), kBegin + kMicrosecond);
    std::uint64_t bytes = 0;
    while (now < kBegin + kSecond / 10) {
        if (pacer.allows(now)) {
            pacer.sent(1000, now);
            bytes += 1000;
        } else {
            const Time next = pacer.next();
            ASSERT_GT(next, now);
            EXPECT_FALSE(pacer.allows(next - 1));
            now = next;
        }
    }
    EXPECT_NEAR(static_cast<double>(bytes), 100'000, 2000);
}

TEST(Pacer, IdleTimeEarnsOneBurstOnly) {
    Pacer pacer;
    pacer.limit(8000, 3000);
    for (Time now : {kBegin, kBegin + 100 * kSecond}) {
        int at_once = 0;
        for (; pacer.allows(now); at_once++) pacer.sent(1000, now);
        EXPECT_EQ(at_once, 3);
    }
}

// However long the pause behind a packet is.
TEST(Pacer, EveryRateIsHeld) {
    struct Row {
        std::uint32_t rate, burst, packet;  // kbit/s, bytes
    };
    constexpr Row kRows[] = {
        {1, 1500, 4608},    {8, 0, 4608},       {8, 100'000, 4608},   {64, 0, 1536},
        {100, 1500, 65536}, {8000, 3000, 1000}, {1'000'000, 0, 4608}, {UINT32_MAX, 1500, 4608}};
    constexpr std::uint64_t kPackets = 200;
    for (const Row& row : kRows) {
        Pacer pacer;
        pacer.limit(row.rate, row.burst);
        Time now = kBegin;
        std::uint64_t waited_for = 0;  // bytes
        for (std::uint64_t i = 0; i < kPackets; i++) {
            pacer.sent(row.packet, now);
            if (pacer.allows(now)) continue;
            waited_for = (i + 1) * row.packet;
            ASSERT_GT(pacer.next(), now);
            now = pacer.next();
            ASSERT_TRUE(pacer.allows(now)) << row.rate << ", packet " << i;
        }
        const double usual = std::max(500e-6 * row.rate * 125, 1500.0);
        const double burst = row.burst ? row.burst : usual, seconds = static_cast<double>(now - kBegin) / 1e9;
        ASSERT_GT(waited_for, burst);
        const double bytes = static_cast<double>(waited_for) - burst;
        EXPECT_NEAR(seconds * row.rate * 125, bytes, bytes / 100 + row.rate / 1e6 * kPackets) << row.rate;
    }
}

// Short looks must not lose what each of them earned less than a byte of.
TEST(Pacer, FrequentLooksLoseNothing) {
    Pacer pacer;
    pacer.limit(8, 1000);  // a byte in a millisecond
    pacer.allows(kBegin);
    pacer.sent(1000, kBegin);
    Time now = kBegin;
    while (!pacer.allows(now)) now += 100 * kMicrosecond;
    EXPECT_LE(now, kBegin + 2 * kMillisecond);
    EXPECT_GE(now, kBegin + kMillisecond);
}

TEST(Pacer, TheHighestRateDoesNotOverflow) {
    Pacer pacer;
    pacer.limit(UINT32_MAX, 0);
    pacer.allows(kBegin);
    pacer.sent(1u << 31, kBegin);
    pacer.sent(1u << 31, kBegin);
    EXPECT_FALSE(pacer.allows(kBegin));
    EXPECT_GT(pacer.next(), kBegin);
    EXPECT_TRUE(pacer.allows(kBegin + kSecond));
}

TEST(Pacer, ANewLimitBeginsAnew) {
    Pacer pacer;
    pacer.limit(8, 1000);
    pacer.sent(100'000, kBegin);
    EXPECT_FALSE(pacer.allows(kBegin));
    pacer.limit(0, 0);
    EXPECT_TRUE(pacer.allows(kBegin));
}

// A megabyte and its packets' overhead at 80 Mbit/s, in each kind of request that is the initiator's to send;
// what is sent again counts, too.
TEST(RateLimit, HoldsForRequestsAndWhatIsSentAgain) {
    using testing::Harness;
    for (const Service service : {Service::rc, Service::uc}) {
        Harness h;
        h.service = service;
        h.start();
        Attributes limit = h.attributes[0];
        limit.rate_limit = 80'000;
        limit.max_burst = 4000;
        ASSERT_EQ(h.side[0].qp->modify(limit, kAttrRateLimit, h.now), 0);
        int count = 0;
        if (service == Service::rc)
            h.filter = [&](const testing::Sent& sent) {
                return sent.from == 0 && ++count % 100 == 50 ? testing::kDrop : testing::kDeliver;
            };
        h.fill(0, 0, 1 << 20, 7);
        ASSERT_EQ(h.post(0, h.request(Operation::rdma_write), {h.side[0].sge(0, 1 << 20)}), 0);
        const Time began = h.now;
        h.run();
        ASSERT_EQ(h.sends(0).at(0).status, completion::Status::success);
        EXPECT_TRUE(h.equal(0, 0, 1 << 20));
        std::size_t bytes = 0;
        for (const testing::Sent& sent : h.packets(0)) {
            bytes += sent.payload;
            // Ten bytes in a microsecond, and what may be ahead of that.
            EXPECT_LE(bytes, static_cast<std::size_t>((sent.at - began) / 100) + 4000 + 1024 + 4096)
                << "at " << sent.at - began;
        }
        EXPECT_LT(h.packets(0).back().at - began, kSecond / 2) << "and it is used";
    }
}

// Whose deadlines are nearer than those of others.
TEST(RateLimit, GoesNotStraight) {
    testing::Harness h;
    h.straight = true;
    h.start();
    ASSERT_EQ(h.post(0, h.request(Operation::send), {h.side[0].sge(0, 8)}), 0);
    EXPECT_EQ(h.went_straight, 1u);
    Attributes limit = h.attributes[0];
    limit.rate_limit = 80'000;
    ASSERT_EQ(h.side[0].qp->modify(limit, kAttrRateLimit, h.now), 0);
    ASSERT_EQ(h.post(0, h.request(Operation::send), {h.side[0].sge(0, 8)}), 0);
    EXPECT_EQ(h.went_straight, 1u);
}

// The peer's answers are its own to limit.
TEST(RateLimit, ReadsAskOnly) {
    testing::Harness h;
    h.start();
    Attributes limit = h.attributes[0];
    limit.rate_limit = 80'000;
    ASSERT_EQ(h.side[0].qp->modify(limit, kAttrRateLimit, h.now), 0);
    ASSERT_EQ(h.post(0, h.request(Operation::rdma_read), {h.side[0].sge(0, 1 << 20)}), 0);
    const Time began = h.now;
    h.run();
    ASSERT_EQ(h.sends(0).at(0).status, completion::Status::success);
    EXPECT_LT(h.packets(1).back().at - began, 50 * kMillisecond);
}

}  // namespace
}  // namespace verbena::transport
