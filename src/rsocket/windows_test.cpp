// A sender's and a receiver's window against each other: bytes arrive in order, whatever the sizes, and
// neither side ever waits for the other.
#include "rsocket/windows.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace verbena::rsocket {
namespace {

struct Link {
    Link(std::uint32_t size, std::uint16_t messages) : receiver(size, messages), memory(size) {
        Hello hello;
        hello.credits = messages;
        hello.buffer = {0, 1, size / 2};
        sender.open(hello);
    }
    // What the receiver owes goes to the sender.
    void settle() {
        while (receiver.owes()) {
            const auto grant = receiver.grant();
            if (grant.buffer) {
                list[slot] = {grant.buffer->offset, 1, grant.buffer->length};
                slot = (slot + 1) % kTargets;
            }
            sender.credited(grant.limit, list);
        }
    }
    std::uint32_t send(std::uint32_t wanted) {
        const std::uint32_t length = std::min(wanted, sender.room());
        if (length == 0) return 0;
        const Target target = sender.take(length);
        for (std::uint32_t i = 0; i < length; i++) memory[target.address + i] = next_sent++;
        EXPECT_TRUE(receiver.arrived(length));
        return length;
    }
    void read(std::uint32_t wanted) {
        while (wanted > 0 && receiver.available() > 0) {
            auto piece = receiver.piece();
            piece.length = std::min(piece.length, wanted);
            for (std::uint32_t i = 0; i < piece.length; i++) ASSERT_EQ(memory[piece.offset + i], next_read++);
            receiver.read(piece.length);
            wanted -= piece.length;
        }
    }
    SendWindow sender;
    ReceiveWindow receiver;
    std::vector<std::uint8_t> memory;
    std::array<Target, kTargets> list{};
    unsigned slot = 1;
    std::uint8_t next_sent = 0, next_read = 0;
};

TEST(RsocketWindows, any_sizes_arrive_in_order) {
    for (unsigned seed = 0; seed < 50; seed++) {
        std::mt19937 random(seed);
        Link link(2 * (1 + random() % 200), static_cast<std::uint16_t>(2 + random() % 30));
        std::uint64_t sent = 0;
        for (int round = 0; round < 5000; round++) {
            sent += link.send(1 + random() % 100);
            if (random() % 2) link.read(random() % 150);
            if (random() % 2) link.settle();
        }
        link.read(UINT32_MAX);
        ASSERT_EQ(link.next_read, link.next_sent);
        ASSERT_GT(sent, 2000u) << "seed " << seed;
    }
}

TEST(RsocketWindows, reader_who_keeps_up_never_stops_the_sender) {
    Link link(64, 8);
    link.settle();
    for (int i = 0; i < 100'000; i++) {  // sequence numbers wrap
        ASSERT_EQ(link.send(7) > 0, true) << i;
        link.read(7);
        link.settle();
    }
}

TEST(RsocketWindows, more_than_granted_is_refused) {
    ReceiveWindow window(64, 2);
    EXPECT_FALSE(window.arrived(33));
    EXPECT_TRUE(window.arrived(32));
    EXPECT_FALSE(window.arrived(1));
    const auto grant = window.grant();
    ASSERT_TRUE(grant.buffer);
    EXPECT_EQ(grant.buffer->offset, 32u);
    EXPECT_TRUE(window.arrived(1));
}

TEST(RsocketWindows, peeking_ahead_wraps) {
    ReceiveWindow window(8, 8);
    ASSERT_TRUE(window.arrived(4));
    window.grant();
    window.read(4);
    ASSERT_TRUE(window.arrived(4));
    window.grant();
    ASSERT_TRUE(window.arrived(2));
    EXPECT_EQ(window.piece().offset, 4u);
    EXPECT_EQ(window.piece().length, 4u);
    EXPECT_EQ(window.piece(4).offset, 0u);
    EXPECT_EQ(window.piece(4).length, 2u);
    EXPECT_EQ(window.piece(6).length, 0u);
}

}  // namespace
}  // namespace verbena::rsocket
