// Large SENDs that the sender writes into the receives that its peer shows (shown_receives.h).
#include <gtest/gtest.h>

#include "memory/outsiders.h"
#include "transport/executing.h"
#include "transport/rc_harness.h"

namespace verbena::transport {
namespace {

using testing::Harness;
using testing::Sent;

class Placed : public ::testing::Test, protected Harness {
   protected:
    static constexpr std::uint32_t kLarge = ShownReceives::kFrom, kSmall = 1000;

    struct Link final : Executing {
        explicit Link(Harness& harness) : h(harness) { fetching_faster = true; }
        std::optional<ShownReceives::Next> shown(const wire::Path&, std::uint32_t) override {
            return looks ? h.side[1].shown.next(h.side[1].qp->counters().messages_received) : std::nullopt;
        }
        Direct place(const PlaceTarget& target, std::span<const iovec> from) override {
            const auto receive = h.side[1].shown.find(target.receive);
            if (!receive) return Direct::not_yet;
            if (declines) return Direct::declined;
            copy(reinterpret_cast<std::uint8_t*>(receive->address) + target.offset, from, false);
            written++;
            return Direct::done;
        }
        Harness& h;
        bool looks = true, declines = false;
        unsigned written = 0;
    };

    Placed() {
        direct = &link;
        fetches = true;
        memory_size = 8 << 20;
    }
    void begin() {
        start();
        for (Side& s : side) s.largest = 1 << 20;
        std::iota(side[0].memory.begin(), side[0].memory.end(), std::uint8_t{1});
        open_window();
    }
    void open_window() {
        link.looks = false;
        for (unsigned round = 0; round < 8; round++) {
            receive(8);
            for (unsigned i = 0; i < 8; i++) send();
            settle();
            expect_completed(8);
        }
        link.looks = true;
        side[1].shown.withdraw();
        times_fetched = 0;
        log.clear();
    }
    void send(std::uint32_t length = kLarge) {
        SendRequest request;
        request.operation = Operation::send;
        request.flags = kSignaled;
        ASSERT_EQ(post(0, request, {side[0].sge(sent_++ % 7, length)}), 0);
        transmit(0, true);
    }
    void receive(unsigned count, std::uint32_t length = kLarge) {
        for (; count > 0; count--, posted_++)
            post_receive(1, posted_, {side[1].sge(posted_ % 8 * kLarge, length)});
    }
    void settle() { run(100 * kMillisecond); }
    // So many complete; since the beginning so many were written and fetched.
    void expect_settled(std::size_t completed, unsigned written, unsigned fetched) {
        settle();
        EXPECT_EQ(link.written, written);
        EXPECT_EQ(times_fetched, fetched);
        expect_completed(completed);
    }
    // One that is fetched, after which the others are shown.
    void show(unsigned others) {
        receive(1 + others);
        send();
        settle();
        ASSERT_EQ(times_fetched, 1u);
        ASSERT_EQ(link.written, 0u);
        expect_completed(1);
    }
    void expect_completed(std::size_t count) {
        const auto done = sends(0), came = receives(1);
        ASSERT_EQ(done.size(), count);
        ASSERT_EQ(came.size(), count);
        for (std::size_t i = 0; i < count; i++) {
            EXPECT_EQ(done[i].status, completion::Status::success);
            EXPECT_EQ(came[i].status, completion::Status::success);
            const std::size_t message = completed_++, at = message % 8 * kLarge;
            EXPECT_EQ(came[i].wr_id, message);
            EXPECT_EQ(std::memcmp(side[1].memory.data() + at, side[0].memory.data() + message % 7,
                                  came[i].byte_length),
                      0)
                << message;
        }
    }

    Link link{*this};
    unsigned sent_ = 0, posted_ = 0;
    std::size_t completed_ = 0;
};

TEST_F(Placed, WhatFollowsAFetchedOneIsWritten) {
    begin();
    show(6);
    for (unsigned i = 0; i < 6; i++) send();
    EXPECT_EQ(link.written, 6u) << "they need not wait for each other";
    expect_settled(6, 6, 1);
}

TEST_F(Placed, OthersHaveATurnAfterEachOne) {
    begin();
    show(3);
    SendRequest request;
    request.operation = Operation::send;
    for (unsigned i = 0; i < 3; i++) ASSERT_EQ(post(0, request, {side[0].sge(0, kLarge)}), 0);
    for (unsigned i = 1; i <= 3; i++) {
        memory::Section section(side[0].sections);
        EXPECT_EQ(side[0].qp->transmit(side[0], now, 16, true), i == 3);
        EXPECT_EQ(link.written, i);
        EXPECT_EQ(side[0].qp->took_long(), i < 3);
    }
}

TEST_F(Placed, ShorterOnesAreFetched) {
    begin();
    show(2);
    send(kLarge - 1);
    expect_settled(1, 0, 2);
}

TEST_F(Placed, ALongMessageIsWrittenInParts) {
    constexpr std::uint32_t kLong = 5 << 19;  // two and a half
    begin();
    show(0);
    receive(1);
    receive(1, kLong);
    send();
    settle();
    expect_completed(1);
    times_fetched = 0;
    send(kLong - 100);
    expect_settled(1, 3, 0);
}

// Receives may overlap, and the later message has to lie on top.
TEST_F(Placed, WaitsForWhatIsStillToBeFetched) {
    begin();
    receive(4);
    filter = [&](const Sent& sent) {
        return sent.from == 0 && packets(0).size() > 1 ? testing::Fate{20 * kMicrosecond} : testing::kDeliver;
    };
    for (unsigned i = 0; i < 3; i++) send();
    run(testing::kOneWay + kMicrosecond);
    ASSERT_TRUE(side[1].shown.is_shown());
    send();
    EXPECT_EQ(packets(0).size(), 3u);
    expect_settled(4, 1, 3);
}

TEST_F(Placed, IsNotWrittenBehindASmallOne) {
    begin();
    show(4);
    send(kSmall);
    send();
    EXPECT_EQ(link.written, 0u);
    expect_settled(2, 0, 2);
}

// A receive of several elements, or another process's turn: those behind it do not wait for each other.
TEST_F(Placed, WhereItIsDeclinedNothingWaits) {
    begin();
    show(8);
    link.declines = true;
    for (unsigned i = 0; i < 4; i++) send();
    EXPECT_EQ(packets(0).size(), 5u);
    settle();
    EXPECT_EQ(times_fetched, 5u);
    expect_completed(4);
    link.declines = false;
    for (unsigned i = 0; i < 4; i++) send();
    EXPECT_EQ(link.written, 4u);
    settle();
    expect_completed(4);
}

TEST_F(Placed, WithoutAReceiveItIsForThePeerToSay) {
    begin();
    show(1);
    send();
    send();
    EXPECT_EQ(link.written, 1u);
    EXPECT_EQ(packets(0).size(), 2u) << "the third waits for what is under way";
    run(50 * kMicrosecond);
    EXPECT_EQ(packets(0).size(), 3u) << "it is refused: no receive";
    receive(1);
    settle();
    EXPECT_EQ(times_fetched, 2u);
    expect_completed(2);
}

TEST_F(Placed, WhatIsSentAgainIsFetched) {
    begin();
    show(2);
    filter = [&](const Sent& sent) {
        return sent.from == 0 && packets(0).size() == 2 ? testing::kDrop : testing::kDeliver;
    };
    send();
    send();
    settle();
    EXPECT_EQ(link.written, 2u);
    EXPECT_EQ(times_fetched, 3u);
    EXPECT_EQ(packets(0).back().aside.placed, 0u);
    expect_completed(2);
}

TEST_F(Placed, ASharedQueueShowsNothing) {
    shared_receive_queue = true;
    begin();
    show(2);
    EXPECT_FALSE(side[1].shown.is_shown());
}

TEST_F(Placed, FlushedReceivesAreWithdrawnAndWritersWaitedFor) {
    struct Others final : memory::Outsiders {
        void wait_for_them(const memory::Work&, Duration most) override {
            waited += most == ShownReceives::kWritten;
        }
        unsigned waited = 0;
    } others;
    for (const QpState state : {QpState::error, QpState::reset}) {
        Placed::Harness h;
        Link its_link(h);
        h.direct = &its_link;
        h.fetches = true;
        h.memory_size = 2 << 20;
        h.start();
        for (Side& s : h.side) s.largest = 1 << 20;
        h.side[1].regions.set_outsiders(&others);
        for (unsigned i = 0; i < 2; i++) h.post_receive(1, i, {h.side[1].sge(0, kLarge)});
        SendRequest request;
        request.operation = Operation::send;
        ASSERT_EQ(h.post(0, request, {h.side[0].sge(0, kLarge)}), 0);
        h.run(100 * kMillisecond);
        ASSERT_TRUE(h.side[1].shown.is_shown());
        others.waited = 0;
        ASSERT_EQ(h.modify(1, state), 0);
        EXPECT_FALSE(h.side[1].shown.is_shown());
        EXPECT_EQ(others.waited, 1u);
        h.side[1].regions.set_outsiders(nullptr);
    }
}

}  // namespace
}  // namespace verbena::transport
