// What a lost packet costs: that one once more, and as little time as can be. In virtual time.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "transport/packets_ahead.h"
#include "transport/rc_harness.h"

namespace verbena::transport::testing {
namespace {

using completion::Status;
using wire::Opcode;

constexpr std::uint32_t kPackets = 8, kLength = kPackets * 1024;

// One WRITE, of which some packets are lost the first time they leave, or so many times.
struct Gaps : ::testing::Test, Harness {
    std::map<std::uint32_t, int> lost;  // by packet: how often

    Gaps() {
        filter = [this](const Sent& sent) {
            const std::uint32_t packet = (sent.headers.bth.psn - start_psn[0]) & wire::kPsnMask;
            const auto found = lost.find(packet);
            return sent.from == 0 && found != lost.end() && found->second-- > 0 ? kDrop : kDeliver;
        };
        start();
        fill(0, 0, kLength, 1);
    }
    void write() { ASSERT_EQ(post(0, request(Operation::rdma_write), {side[0].sge(0, kLength)}), 0); }
    void expect_repeated(std::size_t packets) {
        const auto done = sends(0);
        ASSERT_EQ(done.size(), 1u);
        EXPECT_EQ(done[0].status, Status::success);
        EXPECT_TRUE(equal(0, 0, kLength));
        EXPECT_EQ(this->packets(0).size(), kPackets + packets);
    }
    // From the peer, as far as side 0 can tell.
    void answer(std::uint32_t packet, bool nak) {
        wire::Headers headers;
        headers.bth.opcode = Opcode::rc_ack;
        headers.bth.psn = wire::psn_add(start_psn[0], packet);
        headers.aeth.syndrome = nak ? wire::nak(wire::NakCode::psn_sequence_error) : wire::ack_syndrome();
        inject(0, headers);
        transmit(0, true);
    }
};

TEST_F(Gaps, OnlyWhatIsMissingIsRepeated) {
    for (std::uint32_t packet = 0; packet + 1 < kPackets; packet++) {
        SCOPED_TRACE(packet);
        log.clear();
        lost = {{static_cast<std::uint32_t>(packet * (kPackets + 1)), 1}};  // of the WRITE of this round
        write();
        run();
        expect_repeated(1);
    }
    EXPECT_EQ(side[1].qp->counters().naks_sent, kPackets - 1);
    EXPECT_EQ(side[0].qp->counters().probes, 0u);
}

TEST_F(Gaps, EachByItself) {
    lost = {{1, 1}, {3, 1}, {5, 1}};
    write();
    run();
    expect_repeated(3);
    EXPECT_EQ(side[0].qp->counters().probes, 0u);
    EXPECT_EQ(side[1].qp->counters().naks_sent, 3u);
}

// One behind the other, it looks as if the peer had dropped what came behind the gap.
TEST_F(Gaps, OfSeveralPacketsAreRepeatedFromThereOn) {
    lost = {{1, 1}, {2, 1}, {3, 1}};
    write();
    run();
    expect_repeated(1 + 6);
    EXPECT_EQ(side[0].qp->counters().probes, 0u);
}

TEST_F(Gaps, HideWhatLiesBehindThem) {
    lost = {{3, 1}};
    write();
    run(kOneWay);
    EXPECT_TRUE(equal(0, 0, 3 * 1024));
    const auto begin = side[1].memory.begin() + 3 * 1024;
    EXPECT_TRUE(std::all_of(begin, begin + 5 * 1024, [](std::uint8_t byte) { return byte == 0; }));
    run();
    expect_repeated(1);
}

TEST_F(Gaps, WhoseRepetitionIsLostAreProbedFor) {
    lost = {{3, 2}};
    write();
    run();
    expect_repeated(2);
    EXPECT_EQ(side[0].qp->counters().probes, 1u);
}

TEST_F(Gaps, KeepEveryKindOfRequest) {
    lost = {{0, 1}};
    fill(1, 4096, 2000, 5);
    post_receive(1, 9, {side[1].sge(8192, 3000)});
    std::memset(side[1].memory.data() + 16384, 0, 8);
    SendRequest add = request(Operation::fetch_add, 3, 16384);
    add.compare_add = 5;
    ASSERT_EQ(post(0, request(Operation::rdma_write, 1), {side[0].sge(0, 1000)}), 0);
    ASSERT_EQ(post(0, request(Operation::rdma_read, 2, 4096), {side[0].sge(4096, 2000)}), 0);
    ASSERT_EQ(post(0, add, {side[0].sge(16384, 8)}), 0);
    ASSERT_EQ(post(0, request(Operation::send, 4), {side[0].sge(0, 3000)}), 0);
    run();
    const auto done = sends(0);
    ASSERT_EQ(done.size(), 4u);
    for (std::size_t i = 0; i < done.size(); i++) {
        EXPECT_EQ(done[i].wr_id, i + 1);
        EXPECT_EQ(done[i].status, Status::success);
    }
    EXPECT_EQ(receives(1).size(), 1u);
    EXPECT_TRUE(equal(4096, 4096, 2000));
    EXPECT_TRUE(equal(0, 8192, 3000));
    EXPECT_EQ(side[1].memory[16384], 5);
    EXPECT_EQ(packets(0).size(), 6u + 1u);
}

// As IBA 9.7.4.1.1 has it: a peer that keeps nothing is found out, and gets all at once from then on.
TEST_F(Gaps, OfAPeerThatKeepsNothing) {
    side[1].asleep = true;
    write();
    transmit(0, true);
    ASSERT_EQ(packets(0).size(), kPackets);
    const auto repeated = [this] {
        std::vector<std::uint32_t> out;
        for (const Sent& sent : packets(0))
            out.push_back((sent.headers.bth.psn - start_psn[0]) & wire::kPsnMask);
        log.clear();
        return out;
    };
    repeated();
    answer(1, true);
    EXPECT_EQ(repeated(), std::vector<std::uint32_t>({1}));
    answer(1, false);
    EXPECT_EQ(repeated(), std::vector<std::uint32_t>({2, 3, 4, 5, 6, 7}));
    answer(3, true);
    EXPECT_EQ(repeated(), std::vector<std::uint32_t>({3}));
    answer(3, false);
    EXPECT_EQ(repeated(), std::vector<std::uint32_t>({4, 5, 6, 7}));
    answer(5, true);
    EXPECT_EQ(repeated(), std::vector<std::uint32_t>({5, 6, 7}));
    answer(7, false);
    EXPECT_EQ(sends(0).size(), 1u);
}

// A wire that takes 1 us for a kilobyte, and loses so many of a thousand packets, each way.
struct Lossy : Harness {
    static constexpr std::uint32_t kMessage = 1 << 20;

    explicit Lossy(unsigned lost) {
        attributes[0].path_mtu = attributes[1].path_mtu = 4096;
        memory_size = kMessage;
        keep_log = false;
        filter = [this, lost](const Sent& sent) -> Fate {
            if (network() % 1000 < lost) return kDrop;
            Time& free = free_at[sent.from];
            free = std::max(free, now) + 200 + static_cast<Duration>(sent.payload);
            return {free - now};
        };
        start();
        fill(0, 0, kMessage, 1);
    }
    // How long so many messages take, four at a time.
    Duration take(Operation operation, unsigned messages) {
        unsigned posted = 0, done = 0;
        Time end = now;
        after_step = [&] {
            const auto completions = sends(0);
            if (!completions.empty()) end = now;
            for (const auto& each : completions) EXPECT_EQ(each.status, Status::success);
            done += static_cast<unsigned>(completions.size());
            for (; posted < std::min(messages, done + 4); posted++)
                EXPECT_EQ(post(0, request(operation), {side[0].sge(0, kMessage)}), 0);
        };
        const Time begin = now;
        after_step();
        run(10 * kSecond);
        EXPECT_EQ(done, messages);
        return end - begin;
    }

    std::mt19937 network{7};
    Time free_at[2] = {};
};

// Of what passes without losses, where so many of a thousand packets are lost.
double left(Operation operation, unsigned lost) {
    constexpr unsigned kMessages = 16;
    return static_cast<double>(Lossy(0).take(operation, kMessages)) /
           static_cast<double>(Lossy(lost).take(operation, kMessages));
}

TEST(Losses, LeaveMostOfTheRate) {
    EXPECT_GT(left(Operation::rdma_write, 1), 0.95);
    EXPECT_GT(left(Operation::rdma_write, 10), 0.9);
    EXPECT_GT(left(Operation::rdma_write, 50), 0.5);
    EXPECT_GT(left(Operation::rdma_read, 1), 0.9);
    EXPECT_GT(left(Operation::rdma_read, 10), 0.8);
    EXPECT_GT(left(Operation::rdma_read, 50), 0.4);
}

wire::Packet packet(std::uint32_t psn, std::span<const std::uint8_t> payload) {
    wire::Packet out;
    out.headers.bth.psn = psn;
    out.payload = payload;
    return out;
}

TEST(PacketsAhead, ComeInTheirOrder) {
    const std::vector<std::uint8_t> bytes{1, 2, 3};
    PacketsAhead ahead;
    constexpr std::uint32_t kFirst = wire::kPsnMask - 1;  // across the wrap
    for (const std::uint32_t n : {4u, 1u, 2u, 2u})
        EXPECT_TRUE(ahead.keep(packet(wire::psn_add(kFirst, n), bytes), kFirst));
    EXPECT_FALSE(ahead.take(kFirst));
    for (const std::uint32_t n : {1u, 2u}) {
        const auto taken = ahead.take(wire::psn_add(kFirst, n));
        ASSERT_TRUE(taken);
        EXPECT_EQ(taken->payload, bytes);
    }
    EXPECT_FALSE(ahead.take(wire::psn_add(kFirst, 3)));
    EXPECT_FALSE(ahead.take(wire::psn_add(kFirst, 5))) << "which drops the one in front of it";
    EXPECT_TRUE(ahead.empty());
}

TEST(PacketsAhead, HaveTheRoomOfAWindow) {
    const std::vector<std::uint8_t> bytes(4096);
    PacketsAhead ahead;
    EXPECT_FALSE(ahead.keep(packet(PacketsAhead::kFarthest + 1, bytes), 0));
    std::uint32_t kept = 0;
    while (ahead.keep(packet(kept + 1, bytes), 0)) kept++;
    EXPECT_EQ(kept, Flow::kMaximumWindow / (4096 + Flow::kPacketOverhead));
    EXPECT_TRUE(ahead.take(1));
    EXPECT_TRUE(ahead.keep(packet(kept + 1, bytes), 1));
    ahead.clear();
    EXPECT_TRUE(ahead.keep(packet(1, bytes), 0));
}

}  // namespace
}  // namespace verbena::transport::testing
