#include "wire/run.h"

#include <gtest/gtest.h>

#include <vector>

namespace verbena::wire {
namespace {

constexpr std::size_t kPayload = 256, kSegment = kBthLength + kPayload + kIcrcLength;

// `packets` of a run, as they arrive in one delivery.
std::vector<std::uint8_t> make_run(std::uint32_t packets, std::uint32_t psn, bool ask,
                                   Opcode opcode = Opcode::rc_write_middle) {
    OutPacket run;
    Bth bth;
    bth.opcode = opcode;
    bth.destination_qp = 0x123456;
    bth.ack_request = ask;
    bth.psn = psn;
    run.header_length = kBthLength;
    emit_bth(bth, run.header.data());
    run.aside.psns = packets;
    std::vector<std::uint8_t> bytes(packets * kSegment, 7);
    for (std::uint32_t i = 0; i < packets; i++) {
        std::uint8_t* const at = bytes.data() + i * kSegment;
        std::memcpy(at, run.header.data(), kBthLength);
        place_in_run(at, run, i);
        at[kBthLength] = static_cast<std::uint8_t>(i);
    }
    return bytes;
}

TEST(Run, IsReadAsItWasWritten) {
    const std::vector<std::uint8_t> bytes = make_run(5, 0xfffffe, true);
    const ReceivedRun run = leading_run(bytes, kSegment);
    ASSERT_EQ(run.packets, 5u);
    EXPECT_EQ(run.bth.psn, 0xfffffeu);
    EXPECT_TRUE(run.bth.ack_request);
    EXPECT_EQ(run.size, kPayload);
    EXPECT_EQ(run.length(), 5 * kPayload);
    for (std::uint32_t i = 0; i < 5; i++) EXPECT_EQ(run.at(i)[0], i);
    EXPECT_EQ(load_be24(bytes.data() + 2 * kSegment + kBthPsn), 0u) << "PSNs have 24 bits";
}

TEST(Run, EndsWhereSomethingDiffers) {
    const std::vector<std::uint8_t> whole = make_run(6, 100, false);
    EXPECT_EQ(leading_run(whole, kSegment).packets, 6u);
    const auto changed = [&](std::size_t packet, std::size_t byte, std::uint8_t to) {
        std::vector<std::uint8_t> bytes = whole;
        bytes[packet * kSegment + byte] = to;
        return leading_run(bytes, kSegment).packets;
    };
    EXPECT_EQ(changed(3, 0, static_cast<std::uint8_t>(Opcode::rc_write_last)), 3u);
    EXPECT_EQ(changed(2, 7, 0x57), 2u) << "another queue pair's";
    EXPECT_EQ(changed(4, kBthPsn + 2, 99), 4u) << "a gap";
    EXPECT_EQ(changed(2, kBthAckRequestByte, kBthAckRequest), 3u) << "it asks for an acknowledgement";
    EXPECT_EQ(changed(0, kBthAckRequestByte, kBthAckRequest), 1u);
    EXPECT_EQ(changed(1, 1, 1 << kBthPadShift), 1u) << "padded";
    std::vector<std::uint8_t> shorter = whole;
    shorter.resize(whole.size() - 4);
    EXPECT_EQ(leading_run(shorter, kSegment).packets, 5u);
}

TEST(Run, IsMadeOfMiddlePacketsOnly) {
    EXPECT_EQ(leading_run(make_run(3, 1, false, Opcode::rc_send_middle), kSegment).packets, 3u);
    EXPECT_EQ(leading_run(make_run(3, 1, false, Opcode::rc_read_response_middle), kSegment).packets, 3u);
    for (const Opcode opcode : {Opcode::rc_send_only, Opcode::rc_write_first, Opcode::rc_ack,
                                Opcode::uc_write_middle, Opcode::ud_send_only})
        EXPECT_EQ(leading_run(make_run(3, 1, false, opcode), kSegment).packets, 0u);
    EXPECT_EQ(leading_run(make_run(1, 1, false), kSegment).packets, 0u);
    EXPECT_EQ(leading_run({}, 0).packets, 0u);
    const std::vector<std::uint8_t> headers(64, static_cast<std::uint8_t>(Opcode::rc_write_middle));
    EXPECT_EQ(leading_run(headers, 16).packets, 0u) << "no payload";
    EXPECT_EQ(leading_run(headers, 8).packets, 0u);
}

TEST(Pieces, GiveTheBytesInOrderHoweverTheyAreCut) {
    std::uint8_t bytes[10];
    for (std::uint8_t i = 0; i < 10; i++) bytes[i] = i;
    const iovec list[] = {{bytes, 3}, {bytes, 0}, {bytes + 3, 6}, {bytes + 9, 1}};
    for (std::size_t step = 1; step <= 11; step++) {
        Pieces pieces(list);
        std::vector<std::uint8_t> seen;
        for (int i = 0; i < 10; i++)
            pieces.next(step, [&](const std::uint8_t* data, std::size_t size) {
                EXPECT_GT(size, 0u);
                seen.insert(seen.end(), data, data + size);
            });
        EXPECT_EQ(seen, std::vector<std::uint8_t>(bytes, bytes + 10)) << step;
    }
}

}  // namespace
}  // namespace verbena::wire
