// The straight path is a shorter way to the same: whatever happens to the packets, the same ones leave and
// the same completions come as on the long way.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <tuple>

#include "transport/rc_outcome.h"

namespace verbena::transport {
namespace {

using testing::Harness;
using testing::Outcome;
using testing::Trouble;

struct StraightOutcome : Outcome {
    unsigned straight = 0;
    unsigned shortly = 0, behind = 0;  // among them
    unsigned acknowledged = 0;
    unsigned settled = 0;
};

// What kind of link there is between the two.
struct Way {
    const char* name;
    std::size_t largest;
    bool copies;

    void take(Harness& h) const {
        for (auto& side : h.side) {
            side.largest = largest;
            side.copies = copies;
        }
    }
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

constexpr Way kWire{"wire", 0, false}, kBeside{"asides", 4096, false}, kCopying{"copying", 4096, true};

// Two programs that answer each other, posting SENDs, and WRITEs between them, of all sizes that one packet
// and some can have.
StraightOutcome converse(bool straight, Way way, unsigned seed, const Trouble& trouble) {
    Harness h;
    h.straight = straight;
    h.polls = seed % 2;  // else acknowledgements are owed when the answers are posted
    h.memory_size = 1 << 17;
    h.capabilities = {256, 256, 2, 2, 64};
    way.take(h);
    std::mt19937 network(seed), program(seed + 1);
    h.filter = [&](const testing::Sent&) { return trouble.fate(static_cast<unsigned>(network())); };
    h.start();
    for (int i = 0; i < 2; i++) h.fill(i, 0, 1 << 15, seed + static_cast<unsigned>(i));

    StraightOutcome outcome;
    for (std::uint64_t round = 0; round < 60; round++) {
        const int from = static_cast<int>(program() % 2);
        const unsigned messages = 1 + program() % 3;
        const auto receive = [&] {
            for (unsigned n = 0; n < messages; n++) {
                const std::uint32_t offset = (1 << 15) + program() % 2048 * 8;
                const std::uint32_t cut = program() % 4 == 0 ? 8 : 1032;  // sometimes two elements
                h.post_receive(1 - from, 1000 + round * 10 + n,
                               {h.side[1 - from].sge(offset, cut), h.side[1 - from].sge(offset + cut, 4096)});
            }
        };
        if (!trouble.short_of_receives) receive();
        std::array<SendRequest, 3> requests;
        std::array<Sge, 3> sges;
        for (unsigned n = 0; n < messages; n++) {
            static constexpr std::uint32_t kSizes[] = {0,    1,    7,    8,    9,    64,  500,
                                                       1023, 1024, 1025, 2048, 3000, 4096};
            const std::uint32_t length = kSizes[program() % std::size(kSizes)];
            static constexpr Operation kOperations[] = {
                Operation::send, Operation::send, Operation::send_with_immediate, Operation::rdma_write};
            SendRequest& r = requests[n];
            r = h.request(kOperations[program() % 4], round * 10 + n);
            r.remote_address = h.side[1 - from].address((64 << 10) + program() % 8192);
            r.flags = (program() % 4 ? kSignaled : 0) | (program() % 4 ? 0 : kSolicited) |
                      (length <= 64 && program() % 2 ? kInline : 0) | (program() % 8 ? 0 : kFence);
            r.immediate_or_key = program();
            const auto offset = static_cast<std::size_t>(program() % 4096);
            sges[n] = h.side[from].sge(offset, length);
            if (length > 0) r.sges = {&sges[n], 1};
        }
        const std::size_t together = program() % 2 ? messages : 1;
        for (std::size_t n = 0; n < messages; n += together)
            EXPECT_EQ(h.post(from, std::span(requests).subspan(n, together)), 0);
        h.run(program() % 3 ? 2 * kMillisecond : 30 * kMicrosecond);
        if (trouble.short_of_receives) receive();
        h.run(program() % 3 ? 2 * kMillisecond : 30 * kMicrosecond);
        outcome.take_completions(h);
    }
    h.run(10 * kSecond);
    outcome.end(h);
    outcome.straight = h.went_straight;
    outcome.shortly = h.went_short;
    outcome.behind = h.side[0].went_behind + h.side[1].went_behind;
    outcome.acknowledged = h.acknowledged_straight;
    outcome.settled = h.settled_straight;
    return outcome;
}

class Straight : public ::testing::TestWithParam<std::tuple<Trouble, Way>> {};

TEST_P(Straight, IsTheSameAsTheLongWay) {
    const auto& [trouble, way] = GetParam();
    unsigned shortly = 0, behind = 0;
    for (unsigned seed = 1; seed <= 20; seed++) {
        SCOPED_TRACE(seed);
        const StraightOutcome a = converse(false, way, seed, trouble), b = converse(true, way, seed, trouble);
        EXPECT_GT(b.straight, 20u);
        EXPECT_GT(b.acknowledged, 20u);
        shortly += b.shortly;
        behind += b.behind;
        if (seed % 2) {
            EXPECT_GT(b.settled, 20u);
        }
        testing::expect_same(a, b, !(way.copies && trouble.short_of_receives));
    }
    EXPECT_EQ(shortly > 50, way.copies);
    EXPECT_EQ(behind > 50, !way.copies);
}

INSTANTIATE_TEST_SUITE_P(Rc, Straight,
                         ::testing::Combine(::testing::Values(Trouble{"none", 0, 0, 0, false},
                                                              Trouble{"losses", 5, 0, 0, false},
                                                              Trouble{"disorder", 2, 5, 5, false},
                                                              Trouble{"receives come late", 2, 0, 0, true}),
                                            ::testing::Values(kWire, kBeside)));
INSTANTIATE_TEST_SUITE_P(RcInMemory, Straight,
                         ::testing::Combine(::testing::Values(Trouble{"none", 0, 0, 0, false},
                                                              Trouble{"receives come late", 0, 0, 0, true}),
                                            ::testing::Values(kCopying)));

TEST(StraightPath, WhatIsPostedTogetherGoesAsFarAsItCan) {
    Harness h;
    h.start();
    h.fill(0, 0, 1024, 1);
    const std::array<Sge, 4> sges{h.side[0].sge(0, 64), h.side[0].sge(64, 64), h.side[0].sge(128, 64),
                                  h.side[0].sge(192, 64)};
    std::array<SendRequest, 4> list;
    for (std::size_t i = 0; i < list.size(); i++) {
        list[i] = h.request(Operation::send, i, 0, i == 2 ? kSignaled | kFence : kSignaled);
        list[i].sges = {&sges[i], 1};
        h.post_receive(1, i, {h.side[1].sge(i * 64, 64)});
    }
    const auto post = [&](std::span<const SendRequest> requests) {
        memory::Section section(h.side[0].sections);
        return h.side[0].qp->post_straight(requests, h.side[0], &h.side[0], h.now);
    };
    const auto [taken, follows] = post(list);
    EXPECT_EQ(taken, 2u);
    EXPECT_TRUE(follows & QueuePair::kWaits);
    EXPECT_EQ(h.log.size(), 2u);
    EXPECT_EQ(post(std::span(list).subspan(2)).follows, QueuePair::kDeclined);
    ASSERT_EQ(h.post(0, std::span(list).subspan(2)), 0);
    h.run(100 * kMillisecond);
    EXPECT_EQ(h.sends(0).size(), 4u);
    EXPECT_EQ(std::memcmp(h.side[1].memory.data(), h.side[0].memory.data(), 256), 0);
}

// How a conversation that goes well comes to an end, or nearly.
enum class Mishap {
    receive_too_small,
    receive_of_a_stale_key,
    write_of_a_stale_key,
    write_out_of_bounds,
    no_receive,
    receive_very_late,
    receiver_stops,
    sender_stops,
    completions_overrun,
    peer_dies,
};

Outcome mishap(bool straight, Way way, Mishap what) {
    Harness h;
    h.straight = straight;
    h.memory_size = 1 << 16;
    h.capabilities = {16, 16, 2, 2, 64};
    h.attributes[0].rnr_retry = what == Mishap::no_receive ? 2 : 7;
    way.take(h);
    if (what == Mishap::completions_overrun && h.side[1].receive_cq.resize(2)) ADD_FAILURE();
    h.start();
    h.fill(0, 0, 4096, 1);
    h.fill(1, 0, 4096, 2);
    Outcome outcome;
    std::uint64_t id = 0;
    const auto receive = [&](int at, std::uint32_t length, std::uint32_t stale = 0) {
        id++;
        Sge sge = h.side[at].sge((1 << 15) + id % 64 * 256, length);
        sge.lkey += stale;
        h.post_receive(at, 1000 + id, {sge});
    };
    const auto send = [&](int from) {
        id++;
        const std::uint32_t flags = id % 3 ? kSignaled : kSignaled | kInline;
        EXPECT_EQ(h.post(from, h.request(Operation::send, id, 0, flags), {h.side[from].sge(id % 64 * 8, 40)}),
                  0);
        h.transmit(from, false);  // as the adapter does
    };
    for (int round = 0; round < 6; round++) {
        receive(1 - round % 2, 64);
        send(round % 2);
        h.run(50 * kMicrosecond);
        outcome.take_completions(h);
    }
    switch (what) {
        case Mishap::receive_too_small:
            receive(1, 39);
            break;
        case Mishap::receive_of_a_stale_key:
            receive(1, 64, 0x100);
            break;
        case Mishap::write_of_a_stale_key:
        case Mishap::write_out_of_bounds: {
            for (int i = 0; i < 2; i++) receive(1, 64);
            send(0);
            SendRequest r = h.request(Operation::rdma_write, 500, (1 << 16) - 40);
            EXPECT_EQ(h.post(0, r, {h.side[0].sge(0, 40)}), 0);
            r.remote_address += what == Mishap::write_out_of_bounds;
            r.rkey += what == Mishap::write_of_a_stale_key ? 0x100 : 0;
            EXPECT_EQ(h.post(0, r, {h.side[0].sge(0, 40)}), 0);
            break;
        }
        case Mishap::completions_overrun:
            for (int i = 0; i < 4; i++) receive(1, 64);
            break;
        case Mishap::no_receive:
        case Mishap::receive_very_late:
            break;
        case Mishap::receiver_stops:
        case Mishap::sender_stops:
        case Mishap::peer_dies:
            receive(1, 64);
            break;
    }
    for (int i = 0; i < 4; i++) send(0);
    if (what == Mishap::sender_stops || what == Mishap::receiver_stops) {
        EXPECT_EQ(h.modify(what == Mishap::sender_stops ? 0 : 1, QpState::error), 0);
    }
    h.side[1].asleep = what == Mishap::peer_dies;
    if (what == Mishap::receive_very_late) {
        h.run(30 * kMillisecond);
        for (int i = 0; i < 4; i++) receive(1, 64);
    }
    h.run(200 * kSecond);
    if (what != Mishap::completions_overrun) outcome.take_completions(h);
    if (what != Mishap::peer_dies) send(1);
    h.run(200 * kSecond);
    outcome.end(h, false);
    return outcome;
}

class StraightMishap : public ::testing::TestWithParam<std::tuple<Mishap, Way>> {};

TEST_P(StraightMishap, EndsAsOnTheLongWay) {
    const auto& [what, way] = GetParam();
    const Outcome a = mishap(false, way, what), b = mishap(true, way, what);
    const bool waits = what == Mishap::no_receive || what == Mishap::receive_very_late ||
                       what == Mishap::receiver_stops || what == Mishap::sender_stops ||
                       what == Mishap::completions_overrun || what == Mishap::peer_dies;
    testing::expect_same(a, b, !(way.copies && waits));
    const bool survives = what == Mishap::receive_very_late;
    EXPECT_EQ(a.states[0] == QpState::rts, survives);
}

INSTANTIATE_TEST_SUITE_P(
    Rc, StraightMishap,
    ::testing::Combine(::testing::Values(Mishap::receive_too_small, Mishap::receive_of_a_stale_key,
                                         Mishap::write_of_a_stale_key, Mishap::write_out_of_bounds,
                                         Mishap::no_receive, Mishap::receive_very_late,
                                         Mishap::receiver_stops, Mishap::sender_stops,
                                         Mishap::completions_overrun, Mishap::peer_dies),
                       ::testing::Values(kWire, kBeside, kCopying)));

// A server that only receives, as perftest's, may stay in RTR for good.
StraightOutcome receive_in_rtr(bool straight, Way way, const Trouble& trouble) {
    Harness h;
    h.straight = straight;
    h.memory_size = 1 << 16;
    h.capabilities = {64, 64, 2, 2, 64};
    way.take(h);
    std::mt19937 network(1);
    h.filter = [&](const testing::Sent&) { return trouble.fate(static_cast<unsigned>(network())); };
    for (int i = 0; i < 2; i++) h.make(i);
    h.connect(0);
    h.to_init(1);
    h.to_rtr(1);
    h.fill(0, 0, 4096, 1);
    StraightOutcome outcome;
    for (std::uint64_t round = 0; round < 30; round++) {
        for (std::uint64_t n = 0; n < 4; n++) {
            h.post_receive(1, 1000 + round, {h.side[1].sge(4096 + (4 * round + n) * 64, 64)});
            EXPECT_EQ(h.post(0, h.request(Operation::send, round), {h.side[0].sge(round * 64, 64)}), 0);
        }
        h.run(5 * kMillisecond);
        outcome.take_completions(h);
        if (round == 20) h.to_rts(1);
    }
    h.run(10 * kSecond);
    outcome.end(h);
    outcome.straight = h.went_straight;
    outcome.shortly = h.went_short;
    outcome.settled = h.settled_straight;
    return outcome;
}

TEST(StraightPath, IncludesAReceiverThatStaysInRtr) {
    for (const Trouble& trouble : {Trouble{"none", 0, 0, 0, false}, Trouble{"losses", 5, 0, 0, false}})
        for (const Way& way : {kWire, kBeside, kCopying}) {
            if (way.copies && trouble.lost > 0) continue;  // memory loses nothing
            SCOPED_TRACE(std::string(trouble.name) + ", " + way.name);
            const StraightOutcome a = receive_in_rtr(false, way, trouble),
                                  b = receive_in_rtr(true, way, trouble);
            testing::expect_same(a, b);
            EXPECT_GT(b.straight, trouble.lost ? 180u : 230u) << "sent and received";
            EXPECT_GT(b.settled, 20u);
            EXPECT_EQ(b.events[1], std::vector<QpEvent>{QpEvent::communication_established});
        }
}

// Of who only receives, nothing that requests need is looked at, until it sends.
TEST(StraightPath, WhoReceivesAndThenSendsWaits) {
    for (const Way& way : {kWire, kBeside, kCopying}) {
        SCOPED_TRACE(way.name);
        Harness h;
        way.take(h);
        h.straight = true;
        h.start();
        const auto waits = [&] { return (h.side[1].qp->what_follows(h.now) & QueuePair::kWaits) != 0; };
        for (std::uint64_t n = 0; n < 3; n++) {
            for (int i = 0; i < 2; i++) h.post_receive(i, n, {h.side[i].sge(0, 64)});
            ASSERT_EQ(h.post(0, h.request(Operation::send, n), {h.side[0].sge(0, 64)}), 0);
            h.run(kMillisecond);
            EXPECT_FALSE(waits());
            const unsigned before = h.went_straight;
            ASSERT_EQ(h.post(1, h.request(Operation::send, n), {h.side[1].sge(0, 64)}), 0);
            EXPECT_EQ(h.went_straight, before + 1);
            EXPECT_TRUE(waits());
            EXPECT_TRUE(waits());
            h.run(kMillisecond);
            EXPECT_FALSE(waits());
        }
    }
}

// An acknowledgement leaves by itself only where nothing else is to be said.
TEST(StraightPath, SettlesOneAcknowledgement) {
    Harness h;
    kCopying.take(h);
    h.start();
    QueuePair& receiver = *h.side[1].qp;
    const auto settles = [&] { return receiver.settle_straight(h.side[1], nullptr, h.now); };
    EXPECT_FALSE(settles()) << "nothing is owed";
    h.polls = false;
    h.post_receive(1, 1, {h.side[1].sge(0, 64)});
    ASSERT_EQ(h.post(0, h.request(Operation::send, 1), {h.side[0].sge(0, 64)}), 0);
    h.run(20 * kMicrosecond);
    EXPECT_TRUE(h.sends(0).empty());
    h.side[1].copies = false;
    EXPECT_FALSE(settles()) << "the peer is not on this host";
    h.side[1].copies = true;
    ASSERT_EQ(h.post(1, h.request(Operation::send, 2), {h.side[1].sge(0, 64)}), 0);
    EXPECT_FALSE(settles()) << "a request is about to leave, and takes it along";
    h.transmit(1, false);
    h.run(20 * kMicrosecond);
    EXPECT_EQ(h.sends(0).size(), 1u);

    h.post_receive(1, 3, {h.side[1].sge(0, 64)});
    ASSERT_EQ(h.post(0, h.request(Operation::send, 3), {h.side[0].sge(0, 64)}), 0);
    h.run(20 * kMicrosecond);
    ASSERT_EQ(h.modify(1, QpState::error), 0);
    EXPECT_FALSE(settles()) << "the error state has its own rules";
}

// By a wire the acknowledgement leaves in front of the answer, at the same time; in memory the answer has it.
TEST(StraightPath, AnAnswerBringsTheAcknowledgement) {
    for (const Way& way : {kWire, kCopying}) {
        SCOPED_TRACE(way.name);
        Harness h;
        way.take(h);
        h.straight = true;
        h.polls = false;
        h.start();
        for (int i = 0; i < 2; i++) h.post_receive(i, 1, {h.side[i].sge(0, 64)});
        ASSERT_EQ(h.post(0, h.request(Operation::send, 1), {h.side[0].sge(0, 64)}), 0);
        h.run(20 * kMicrosecond);
        const unsigned before = h.went_straight;
        ASSERT_EQ(h.post(1, h.request(Operation::send, 2), {h.side[1].sge(0, 64)}), 0);
        EXPECT_EQ(h.went_straight, before + 1);
        const auto packets = h.packets(1);
        ASSERT_EQ(packets.size(), way.copies ? 1u : 2u);
        EXPECT_EQ(packets.back().headers.bth.opcode, wire::Opcode::rc_send_only);
        EXPECT_EQ(packets.back().aside.acknowledges, way.copies);
        if (!way.copies) {
            EXPECT_EQ(packets[0].headers.bth.opcode, wire::Opcode::rc_ack);
            EXPECT_EQ(packets[0].headers.bth.psn, h.start_psn[0]);
            EXPECT_EQ(packets[0].at, packets[1].at);
        }
        h.run(20 * kMicrosecond);
        EXPECT_EQ(h.sends(0).size(), 1u) << "the acknowledgement came with it";
        EXPECT_EQ(h.receives(0).size(), 1u);
        h.run(2 * kMillisecond);
        EXPECT_EQ(h.packets(1).size(), packets.size()) << "nothing is owed any more";
    }
}

// What left by a wire last is not tried in memory alone; what has a sink finds out that the peer is there.
TEST(StraightPath, RemembersWhichWayItLeaves) {
    Harness h;
    kCopying.take(h);
    h.start();
    SendRequest request = h.request(Operation::send);
    const Sge sge = h.side[0].sge(0, 64);
    request.sges = {&sge, 1};
    const auto leaves = [&](wire::PacketSink* sink) {
        memory::Section section(h.side[0].sections);
        return h.side[0].qp->post_straight({&request, 1}, h.side[0], sink, h.now).count == 1;
    };
    EXPECT_TRUE(leaves(nullptr));
    h.side[0].copies = false;
    EXPECT_FALSE(leaves(nullptr));
    EXPECT_TRUE(leaves(&h.side[0]));
    h.side[0].copies = true;
    EXPECT_FALSE(leaves(nullptr)) << "by a wire, as far as it knows";
    EXPECT_TRUE(leaves(&h.side[0]));
    EXPECT_TRUE(leaves(nullptr));

    Sge word = h.side[0].sge(0, 8);
    request = h.request(Operation::fetch_add, 2, 64);
    request.sges = {&word, 1};
    EXPECT_TRUE(leaves(nullptr));
    h.side[0].copies = false;
    EXPECT_TRUE(leaves(&h.side[0]));
    h.side[0].copies = true;
    EXPECT_FALSE(leaves(nullptr)) << "by a wire, as an atomic knows, too";
    EXPECT_TRUE(leaves(&h.side[0]));
    EXPECT_TRUE(leaves(nullptr));
}

// Where asides go, but not now, the acknowledgement waits for the packet that takes it.
TEST(StraightPath, AFullRingIsNoWire) {
    Harness h;
    kCopying.take(h);
    h.polls = false;
    h.start();
    h.post_receive(1, 1, {h.side[1].sge(0, 64)});
    ASSERT_EQ(h.post(0, h.request(Operation::send, 1), {h.side[0].sge(0, 64)}), 0);
    h.transmit(0, false);
    h.run(20 * kMicrosecond);
    ASSERT_EQ(h.receives(1).size(), 1u);
    h.side[1].full = true;
    SendRequest request = h.request(Operation::send);
    const Sge sge = h.side[1].sge(0, 64);
    request.sges = {&sge, 1};
    memory::Section section(h.side[1].sections);
    EXPECT_EQ(h.side[1].qp->post_straight({&request, 1}, h.side[1], &h.side[1], h.now).count, 0u);
    EXPECT_TRUE(h.packets(1).empty());
    EXPECT_NE(h.side[1].qp->acknowledgement_deadline(), kNever) << "still owed";
}

// What the caller does wrong is answered by the long way, with its reason.
TEST(StraightPath, LeavesMistakesToTheLongWay) {
    Harness h;
    h.straight = true;
    h.start();
    const SendRequest r = h.request(Operation::send);
    const auto refused = [&](SendRequest request, Sge sge) {
        request.sges = {&sge, 1};
        memory::Section section(h.side[0].sections);
        return h.side[0].qp->post_straight({&request, 1}, h.side[0], &h.side[0], h.now).follows ==
               QueuePair::kDeclined;
    };
    Sge stale = h.side[0].sge(0, 8);
    stale.lkey += 0x100;
    EXPECT_TRUE(refused(r, stale));
    EXPECT_TRUE(refused(r, {h.side[0].address(h.memory_size - 4), 8, h.side[0].keys.lkey}));
    EXPECT_TRUE(refused(h.request(Operation::send, 1, 0, kInline), h.side[0].sge(0, 300)));
    EXPECT_TRUE(refused(h.request(Operation::rdma_write), stale));
    EXPECT_TRUE(refused(h.request(Operation::rdma_write), h.side[0].sge(0, 0)));
    EXPECT_TRUE(refused(h.request(Operation::rdma_write_with_immediate), h.side[0].sge(0, 8)));
    EXPECT_FALSE(refused(h.request(Operation::rdma_write), h.side[0].sge(0, 8)));
    EXPECT_TRUE(refused(h.request(Operation::send, 1, 0, kFence), h.side[0].sge(0, 8)));
    EXPECT_TRUE(refused(r, h.side[0].sge(0, 1025)));
    EXPECT_FALSE(refused(r, h.side[0].sge(0, 1024)));
    ASSERT_EQ(h.modify(0, QpState::sqd), 0);
    EXPECT_TRUE(refused(r, h.side[0].sge(0, 8)));
    ASSERT_EQ(h.modify(0, QpState::error), 0);
    EXPECT_TRUE(refused(r, h.side[0].sge(0, 8)));
}

}  // namespace
}  // namespace verbena::transport
