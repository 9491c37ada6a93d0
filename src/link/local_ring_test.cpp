#include "link/local_ring.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace verbena::link {
namespace {

class LocalRingTest : public ::testing::Test {
   protected:
    void SetUp() override {
        consumer_ = LocalRing::create();
        ASSERT_NE(consumer_, nullptr);
        producer_ = LocalRing::open(consumer_->fd());
        ASSERT_NE(producer_, nullptr);
        path_.source = Gid::from_ipv4(0x0a000001);
        path_.destination = Gid::from_ipv4(0x0a000002);
    }

    bool put(const std::string& text) {
        std::string copy = text;
        const std::size_t half = copy.size() / 2;
        const iovec pieces[2] = {{copy.data(), half}, {copy.data() + half, copy.size() - half}};
        return producer_->append(path_, pieces);
    }

    // Empty: nothing there.
    std::string take() {
        std::span<const std::uint8_t> bytes;
        if (!consumer_->front(bytes)) return {};
        EXPECT_EQ(consumer_->path().source, path_.source);
        EXPECT_EQ(consumer_->path().destination, path_.destination);
        std::string text(bytes.begin(), bytes.end());
        consumer_->release();
        consumer_->settle();
        return text;
    }

    // A BTH, of which nobody here asks for more, and some bytes.
    static std::string packet_for(std::uint32_t qp, std::size_t payload) {
        std::string packet(wire::kBthLength + payload, '\0');
        for (unsigned i = 0; i < 3; i++) packet[5 + i] = static_cast<char>(qp >> (16 - 8 * i));
        return packet;
    }

    std::unique_ptr<LocalRing> consumer_, producer_;
    wire::Path path_;
};

TEST_F(LocalRingTest, PacketsComeOutInOrderOnceTheyArePublished) {
    ASSERT_TRUE(put("one"));
    ASSERT_TRUE(put("two, which is longer"));
    EXPECT_EQ(take(), "");
    producer_->publish();
    EXPECT_FALSE(consumer_->empty());
    EXPECT_EQ(take(), "one");
    EXPECT_EQ(take(), "two, which is longer");
    EXPECT_EQ(take(), "");
    EXPECT_TRUE(consumer_->empty());
}

TEST_F(LocalRingTest, AWholePacketIsTheSameAsItsPieces) {
    std::string payload = "payload";
    iovec piece{payload.data(), payload.size()};
    wire::OutPacket packet;
    packet.path = &path_;
    packet.header_length = 12;
    std::memcpy(packet.header.data(), "twelve bytes", 12);
    packet.pad_count = 1;
    packet.payload = {&piece, 1};
    packet.aside = {1, true, 0x123456};
    ASSERT_TRUE(producer_->append(packet));
    packet.payload = {};
    packet.pad_count = 0;
    packet.aside = {};
    ASSERT_TRUE(producer_->append(packet));
    producer_->publish();
    EXPECT_FALSE(consumer_->looks_empty());
    std::span<const std::uint8_t> bytes;
    ASSERT_TRUE(consumer_->front(bytes));
    EXPECT_EQ(std::string(bytes.begin(), bytes.end()), std::string("twelve bytespayload\0", 20));
    EXPECT_TRUE(consumer_->aside().acknowledges);
    EXPECT_EQ(consumer_->aside().acknowledged, 0x123456u);
    consumer_->release();
    EXPECT_EQ(take(), "twelve bytes");
    EXPECT_TRUE(consumer_->looks_empty());
}

// By the way of what fits into a slot, and by that of the others, which say the addresses, too.
TEST_F(LocalRingTest, WholePacketsOfAllShortLengthsKeepWhatTheyHave) {
    std::string payload(60, 'x');
    for (unsigned round = 0; round < 3 * LocalRing::kSlots; round++) {
        const unsigned length = round % payload.size(), pad = -length & 3;
        for (unsigned i = 0; i < length; i++) payload[i] = static_cast<char>('a' + (round + i) % 26);
        if (round % 97 == 0) path_.destination = Gid::from_ipv4(0x0a000001 + round);
        iovec piece{payload.data(), length};
        wire::OutPacket packet;
        packet.path = &path_;
        packet.header_length = round % 5 == 0 ? 16 : 12;
        std::memcpy(packet.header.data(), "sixteen bytes...", 16);
        packet.pad_count = static_cast<std::uint8_t>(pad);
        if (length > 0) packet.payload = {&piece, 1};
        packet.aside = {1, round % 3 == 0, round};
        ASSERT_TRUE(producer_->append(packet, round % 2 == 0));
        producer_->publish();

        std::span<const std::uint8_t> bytes;
        ASSERT_TRUE(consumer_->front(bytes));
        const std::string expected = std::string("sixteen bytes...").substr(0, packet.header_length) +
                                     payload.substr(0, length) + std::string(pad, '\0');
        ASSERT_EQ(std::string(bytes.begin(), bytes.end()), expected) << round;
        ASSERT_EQ(consumer_->path().destination, path_.destination);
        ASSERT_EQ(consumer_->aside().acknowledges, round % 3 == 0);
        ASSERT_EQ(consumer_->aside().acknowledged, round);
        ASSERT_FALSE(consumer_->form() != LocalRing::Form::packet || consumer_->followed());
        consumer_->release();
        consumer_->settle();
    }
}

TEST_F(LocalRingTest, WholePacketsThatFitIntoSlotsRunOutOfSlots) {
    wire::OutPacket packet;
    packet.path = &path_;
    packet.header_length = 12;
    for (unsigned i = 0; i < LocalRing::kSlots; i++) ASSERT_TRUE(producer_->append(packet, i % 2 == 0));
    EXPECT_FALSE(producer_->append(packet));
    producer_->publish();
    EXPECT_FALSE(producer_->await_room());
    for (unsigned i = 0; i < LocalRing::kSlots; i++) EXPECT_EQ(take().size(), 12u);
    EXPECT_TRUE(producer_->append(packet));
}

TEST_F(LocalRingTest, AddressesAreSaidOnceAndAsidesTravelAlong) {
    const iovec nothing{nullptr, 0};
    ASSERT_TRUE(producer_->append(path_, {&nothing, 1}, {7, true, 0xfffffe}, LocalRing::Form::reference));
    path_.udp_source_port = 0xc124;  // of another queue pair
    ASSERT_TRUE(put("the same addresses"));
    const wire::Path first = path_;
    path_.destination = Gid::from_ipv4(0x0a000003);
    ASSERT_TRUE(put("others"));
    producer_->publish();
    std::span<const std::uint8_t> bytes;
    ASSERT_TRUE(consumer_->front(bytes));
    EXPECT_EQ(consumer_->aside().psns, 7u);
    EXPECT_TRUE(consumer_->aside().acknowledges);
    EXPECT_EQ(consumer_->aside().acknowledged, 0xfffffeu);
    EXPECT_EQ(consumer_->form(), LocalRing::Form::reference);
    consumer_->release();
    ASSERT_TRUE(consumer_->front(bytes));
    EXPECT_EQ(consumer_->path().source, first.source);
    EXPECT_EQ(consumer_->path().destination, first.destination);
    EXPECT_EQ(consumer_->aside().psns, 1u);
    EXPECT_FALSE(consumer_->aside().acknowledges || consumer_->form() != LocalRing::Form::packet);
    consumer_->release();
    EXPECT_EQ(take(), "others");
}

TEST_F(LocalRingTest, WhatIsPublishedTogetherIsSeenTogether) {
    for (int round = 0; round < 3; round++) {
        for (const char* text : {"a", "b", "c"}) {
            ASSERT_TRUE(put(text));
            EXPECT_TRUE(consumer_->looks_empty());
        }
        producer_->publish();
        ASSERT_TRUE(put("alone"));
        EXPECT_FALSE(consumer_->looks_empty());
        for (const bool followed : {true, true, false}) {
            std::span<const std::uint8_t> bytes;
            ASSERT_TRUE(consumer_->front(bytes));
            EXPECT_EQ(consumer_->followed(), followed);
            consumer_->release();
        }
        EXPECT_EQ(take(), "");
        producer_->publish();
        EXPECT_EQ(take(), "alone");
    }
}

TEST_F(LocalRingTest, BehindAProducerThatIsFarAheadPacketsCountAsFollowed) {
    constexpr unsigned kPackets = 100;
    for (unsigned i = 0; i < kPackets; i++) {
        ASSERT_TRUE(put("x"));
        producer_->publish();  // each alone
    }
    unsigned followed = 0;
    for (unsigned i = 0; i < kPackets; i++) {
        std::span<const std::uint8_t> bytes;
        ASSERT_TRUE(consumer_->front(bytes));
        followed += consumer_->followed();
        EXPECT_FALSE(i + 1 == kPackets && consumer_->followed());
        consumer_->release();
    }
    EXPECT_GE(followed, kPackets / 2);  // from the first look at the head on
}

TEST_F(LocalRingTest, WhatIsTakenTogetherIsForOneQueuePairAndInSlots) {
    ASSERT_TRUE(put("says the addresses"));
    producer_->publish();
    ASSERT_EQ(take(), "says the addresses");
    const auto put_some = [&](std::initializer_list<std::string> packets) {
        for (const std::string& packet : packets) ASSERT_TRUE(put(packet));
    };
    const std::string fits = packet_for(7, LocalRing::kInSlot - wire::kBthLength);
    put_some({packet_for(7, 1), fits, packet_for(8, 1), packet_for(8, 2)});
    put_some({packet_for(8, LocalRing::kInSlot), packet_for(8, 3), packet_for(8, 4)});
    path_.source = Gid::from_ipv4(0x0a000009);
    put_some({packet_for(8, 5), packet_for(8, 6), packet_for(8, 7)});
    producer_->publish();
    ASSERT_TRUE(put(packet_for(8, 8)));  // not yet seen by the consumer

    std::array<wire::InPacket, 16> packets;
    const auto expect = [&](std::size_t count, std::size_t alone_behind) {
        ASSERT_EQ(consumer_->together(packets), count);
        consumer_->release(count);
        std::span<const std::uint8_t> bytes;
        for (; alone_behind > 0; alone_behind--) {
            ASSERT_TRUE(consumer_->front(bytes));
            consumer_->release();
        }
    };
    expect(2, 0);
    EXPECT_EQ(packets[1].bytes.size(), LocalRing::kInSlot + wire::kIcrcLength);
    EXPECT_EQ(std::memcmp(packets[1].bytes.data(), fits.data(), fits.size()), 0);
    expect(2, 1);  // behind them a long one
    expect(2, 1);  // and one with addresses
    expect(2, 0);
    expect(0, 0);
    producer_->publish();
    EXPECT_EQ(take(), packet_for(8, 8));
}

TEST_F(LocalRingTest, NoMoreAreTakenTogetherThanThereIsRoomFor) {
    for (unsigned i = 0; i < 40; i++) ASSERT_TRUE(put(packet_for(7, i % 30)));
    producer_->publish();
    ASSERT_EQ(take(), packet_for(7, 0));
    std::array<wire::InPacket, 16> packets;
    for (const std::size_t count : {16u, 16u, 7u, 0u}) {
        ASSERT_EQ(consumer_->together(packets), count);
        consumer_->release(count);
    }
}

// What fits into a slot, or beside it, and what does not, by one byte, with addresses in front of it and
// without.
TEST_F(LocalRingTest, ShortAndLongPacketsTakeTurns) {
    unsigned letter = 0;
    for (unsigned round = 0; round < 20'000; round++) {
        if (round % 7 == 0) path_.source = Gid::from_ipv4(0x0a000001 + round);
        std::string packet(round % 200, 'x');
        for (char& c : packet) c = static_cast<char>('a' + letter++ % 26);
        ASSERT_TRUE(put(packet + "."));
        producer_->publish();
        ASSERT_EQ(take(), packet + ".");
    }
}

TEST_F(LocalRingTest, ShortPacketsRunOutOfSlots) {
    for (unsigned i = 0; i < LocalRing::kSlots; i++) ASSERT_TRUE(put("x"));
    EXPECT_FALSE(put("y"));
    producer_->publish();
    EXPECT_FALSE(producer_->await_room());
    EXPECT_EQ(take(), "x");
    EXPECT_TRUE(put("y"));
    producer_->publish();
    unsigned taken = 1;
    for (std::span<const std::uint8_t> bytes; producer_->awaits_room(); taken++) {
        ASSERT_TRUE(consumer_->front(bytes));
        consumer_->release();
        consumer_->settle();
    }
    EXPECT_EQ(taken, LocalRing::kSlots / 2 + 1);
}

TEST_F(LocalRingTest, FullIsRefusedAndFreedAgain) {
    const std::string packet(4200, 'x');
    unsigned count = 0;
    while (put(packet)) count++;
    EXPECT_GT(count, LocalRing::kCapacity / packet.size() - 3);
    EXPECT_LE(count, LocalRing::kCapacity / packet.size());
    producer_->publish();
    EXPECT_FALSE(put(packet));
    EXPECT_EQ(take(), packet);
    EXPECT_TRUE(put(packet));
    EXPECT_FALSE(put(packet));
}

// Their space costs room only while there is plenty.
TEST_F(LocalRingTest, ShortPacketsFillTheRing) {
    const std::string packet(1000, 'x');
    for (unsigned lap = 0; lap < 5; lap++) {
        unsigned count = 0;
        for (; put(packet + std::to_string(count)); count++) producer_->publish();
        EXPECT_GT(count, LocalRing::kCapacity / packet.size() * 2 / 3) << lap;
        for (unsigned i = 0; i < count; i++) ASSERT_EQ(take(), packet + std::to_string(i)) << lap;
        EXPECT_EQ(take(), "");
        consumer_->settle();
    }
}

TEST_F(LocalRingTest, PacketsAreWholeAcrossTheEnd) {
    unsigned next = 0, expected = 0;
    for (unsigned round = 0; round < 3000; round++) {
        const std::string packet(1000 + next % 3100, static_cast<char>('a' + next % 26));
        ASSERT_TRUE(put(packet));
        next++;
        producer_->publish();
        if (next - expected > 40) {
            ASSERT_EQ(take(), std::string(1000 + expected % 3100, static_cast<char>('a' + expected % 26)));
            expected++;
        }
    }
}

// By both kinds of stores (store_way.h), in one piece and in two, wherever they begin in a line.
TEST_F(LocalRingTest, LargePacketsAreWhole) {
    const auto packet = [](unsigned n) {
        std::string text(4000 + n * 937 % 33000, '\0');
        for (std::size_t i = 0; i < text.size(); i++) text[i] = static_cast<char>(i * (n + 1) >> 1);
        return text;
    };
    for (unsigned n = 0; n < 2000; n += 4) {
        for (unsigned i = n; i < n + 4; i++) {
            if (i % 3 != 0) {
                ASSERT_TRUE(put(packet(i)));
                continue;
            }
            std::string copy = packet(i);
            const iovec piece{copy.data(), copy.size()};
            ASSERT_TRUE(producer_->append(path_, {&piece, 1}));
        }
        producer_->publish();
        for (unsigned i = n; i < n + 4; i++) ASSERT_TRUE(take() == packet(i)) << i;
    }
}

TEST_F(LocalRingTest, TheProducerLearnsOfSleepers) {
    ASSERT_TRUE(put("x"));
    EXPECT_FALSE(producer_->publish());
    consumer_->enter_sleep();
    consumer_->enter_sleep();
    EXPECT_TRUE(producer_->publish());
    consumer_->leave_sleep();
    EXPECT_TRUE(producer_->publish());
    consumer_->leave_sleep();
    EXPECT_FALSE(producer_->publish());
}

TEST_F(LocalRingTest, WhoWaitsForRoomIsToldOnceHalfIsFree) {
    const std::string packet(4200, 'x');
    unsigned count = 0;
    while (put(packet)) count++;
    producer_->publish();
    EXPECT_FALSE(producer_->awaits_room());
    EXPECT_FALSE(producer_->await_room());
    EXPECT_TRUE(producer_->awaits_room());
    std::span<const std::uint8_t> bytes;
    unsigned taken = 0;
    do {
        ASSERT_TRUE(consumer_->front(bytes));
        consumer_->release();
        taken++;
    } while (!consumer_->settle());
    EXPECT_EQ(taken, (count + 1) / 2);
    EXPECT_FALSE(producer_->awaits_room());
    while (!take().empty()) {
    }
    EXPECT_FALSE(consumer_->settle());  // told already
}

TEST_F(LocalRingTest, RoomThatCameMeanwhileIsNotWaitedFor) {
    const std::string packet(4200, 'x');
    while (put(packet)) {
    }
    producer_->publish();
    EXPECT_EQ(take(), packet);
    EXPECT_TRUE(producer_->await_room());
    EXPECT_FALSE(producer_->awaits_room());
    EXPECT_TRUE(put(packet));
}

TEST_F(LocalRingTest, UnreadUntilReleased) {
    EXPECT_FALSE(producer_->unread());
    ASSERT_TRUE(put("x"));
    EXPECT_FALSE(producer_->unread());
    producer_->publish();
    EXPECT_TRUE(producer_->unread());
    EXPECT_EQ(take(), "x");
    EXPECT_FALSE(producer_->unread());
}

TEST_F(LocalRingTest, TwoThreads) {
    constexpr unsigned kPackets = 50'000;
    std::jthread writer([this] {
        for (unsigned i = 0; i < kPackets; i++) {
            const std::string text = std::to_string(i);
            while (!put(text)) std::this_thread::yield();
            producer_->publish();
        }
    });
    for (unsigned i = 0; i < kPackets; i++) {
        std::string text;
        while ((text = take()).empty()) std::this_thread::yield();
        ASSERT_EQ(text, std::to_string(i));
    }
}

// The first slot's place in the file is its second page.
TEST_F(LocalRingTest, NonsenseFromTheOtherSideBreaksTheRingOnly) {
    void* memory = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, consumer_->fd(), 0);
    ASSERT_NE(memory, MAP_FAILED);
    auto* bytes = static_cast<std::uint8_t*>(memory);
    const std::uint32_t slot[2] = {1, 0xfffffff0};  // its number, and how long the packet is
    std::memcpy(bytes + 4096, slot, sizeof slot);
    EXPECT_EQ(take(), "");
    const std::uint32_t small = 5;
    std::memcpy(bytes + 4100, &small, sizeof small);
    EXPECT_EQ(take(), "");
    // What comes later is lost, but nobody waits for it.
    for (const std::string& packet : {std::string(4200, 'x'), std::string("y")})
        for (unsigned i = 0; i < 2 * LocalRing::kSlots; i++) {
            ASSERT_TRUE(put(packet));
            producer_->publish();
            ASSERT_EQ(take(), "");
            consumer_->settle();
            ASSERT_FALSE(producer_->unread());
        }
    munmap(memory, 8192);
}

// Of several packets together all but the first are shown at once, and their producer may be killed then.
TEST_F(LocalRingTest, ItHasOneProducer) {
    EXPECT_FALSE(consumer_->is_used());
    ASSERT_TRUE(put("first"));
    ASSERT_TRUE(put("second"));
    EXPECT_EQ(LocalRing::open(consumer_->fd()), nullptr);
    producer_->publish();
    EXPECT_EQ(take(), "first");
    EXPECT_EQ(take(), "second");
    EXPECT_EQ(LocalRing::open(consumer_->fd()), nullptr);
}

TEST(LocalRingFileTest, OtherFilesAreRefused) {
    const int fd = memfd_create("no ring", MFD_CLOEXEC);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(LocalRing::open(fd), nullptr);
    ASSERT_EQ(ftruncate(fd, RingLayout::kFile), 0);
    EXPECT_EQ(LocalRing::open(fd), nullptr);  // it can be resized
    close(fd);
}

}  // namespace
}  // namespace verbena::link
