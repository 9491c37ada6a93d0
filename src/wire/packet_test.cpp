#include "wire/packet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace verbena::wire {
namespace {

using ::testing::ElementsAreArray;
using Bytes = std::vector<std::uint8_t>;

Bytes emitted(const Headers& headers) {
    Bytes out(kMaxHeaderLength, 0xee);
    out.resize(emit(headers, out.data()));
    return out;
}

// Headers, payload, pad, ICRC room.
Bytes datagram(Headers headers, const Bytes& payload) {
    headers.bth.pad_count = pad_for(payload.size());
    Bytes out = emitted(headers);
    out.insert(out.end(), payload.begin(), payload.end());
    out.insert(out.end(), headers.bth.pad_count + kIcrcLength, 0);
    return out;
}

// Random values in the headers that `opcode` has, defaults in the others: what parse() has to give back.
Headers random_headers(Opcode opcode, std::mt19937_64& random) {
    auto r32 = [&] { return static_cast<std::uint32_t>(random()); };
    auto r24 = [&] { return r32() & 0xffffff; };
    auto coin = [&] { return (random() & 1) != 0; };
    const OpcodeInfo& i = info(opcode);
    Headers h;
    h.bth = {opcode, coin(), coin(), 0,      0,    static_cast<std::uint16_t>(random()),
             coin(), coin(), r24(),  coin(), r24()};
    if (i.has_deth) h.deth = {r32(), r24()};
    if (i.has_xrceth) h.xrceth = {r24()};
    if (i.has_reth) h.reth = {random(), r32(), r32()};
    if (i.has_atomic_eth) h.atomic_eth = {random(), r32(), random(), random()};
    if (i.has_aeth) h.aeth = {static_cast<std::uint8_t>(random()), r24()};
    if (i.has_atomic_ack) h.atomic_ack = random();
    if (i.has_immdt) h.immediate = r32();
    if (i.has_ieth) h.invalidate_rkey = r32();
    if (i.has_feth)
        h.feth = {static_cast<std::uint8_t>(random() & 15), static_cast<std::uint8_t>(random() & 3)};
    return h;
}

TEST(Packet, BthBits) {
    Headers h;
    h.bth = {Opcode::rc_send_only, true, false, 2, 0, 0x1234, true, false, 0xabcdef, true, 0x123456};
    EXPECT_THAT(emitted(h),
                ElementsAreArray({0x04, 0xa0, 0x12, 0x34, 0x80, 0xab, 0xcd, 0xef, 0x80, 0x12, 0x34, 0x56}));
    h.bth = {Opcode::rc_send_only, false, true, 1, 0, 0xffff, false, true, 0xff000001, false, 0xff000002};
    EXPECT_THAT(emitted(h),
                ElementsAreArray({0x04, 0x50, 0xff, 0xff, 0x40, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x02}))
        << "numbers of 24 bits do not spill into their neighbours";
}

TEST(Packet, ExtendedHeadersOfXrcWriteWithImmediate) {
    Headers h;
    h.bth.opcode = Opcode::xrc_write_only_immediate;
    h.xrceth.srqn = 0x010203;
    h.reth = {0x1112131415161718, 0x21222324, 0x31323334};
    const std::uint8_t immediate[] = {0x41, 0x42, 0x43, 0x44};
    std::memcpy(&h.immediate, immediate, 4);
    Bytes bytes = emitted(h);
    bytes.erase(bytes.begin(), bytes.begin() + kBthLength);
    EXPECT_THAT(bytes,
                ElementsAreArray({0x00, 0x01, 0x02, 0x03, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,
                                  0x21, 0x22, 0x23, 0x24, 0x31, 0x32, 0x33, 0x34, 0x41, 0x42, 0x43, 0x44}));
}

TEST(Packet, ExtendedHeadersOfCompareAndSwap) {
    Headers h;
    h.bth.opcode = Opcode::rc_compare_swap;
    h.atomic_eth = {0x0102030405060708, 0x090a0b0c, 0x1112131415161718, 0x2122232425262728};
    Bytes bytes = emitted(h);
    bytes.erase(bytes.begin(), bytes.begin() + kBthLength);
    EXPECT_THAT(bytes, ElementsAreArray({0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a,
                                         0x0b, 0x0c, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,
                                         0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28}));
}

TEST(Packet, ExtendedHeadersOfUdFlushInvalidateAndAtomicAck) {
    Headers h;
    auto behind_bth = [&] {
        Bytes bytes = emitted(h);
        bytes.erase(bytes.begin(), bytes.begin() + kBthLength);
        return bytes;
    };
    h.bth.opcode = Opcode::ud_send_only;
    h.deth = {0x80010000, 0xff000001};
    EXPECT_THAT(behind_bth(), ElementsAreArray({0x80, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01}));
    h.bth.opcode = Opcode::rc_flush;
    h.feth = {2, 1};
    Bytes flush = behind_bth();
    flush.resize(kFethLength);
    EXPECT_THAT(flush, ElementsAreArray({0, 0, 0, 0x12}));
    h.bth.opcode = Opcode::rc_send_only_invalidate;
    h.invalidate_rkey = 0x01020304;
    EXPECT_THAT(behind_bth(), ElementsAreArray({1, 2, 3, 4}));
    h.bth.opcode = Opcode::rc_atomic_ack;
    h.aeth = {0x1f, 0x0a0b0c};
    h.atomic_ack = 0x0102030405060708;
    EXPECT_THAT(behind_bth(), ElementsAreArray({0x1f, 0x0a, 0x0b, 0x0c, 1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(Packet, ParseGivesBackWhatEmitWroteForEveryOpcode) {
    std::mt19937_64 random(1);
    for (unsigned value = 0; value < 256; value++) {
        auto opcode = static_cast<Opcode>(value);
        if (!info(opcode).valid) continue;
        SCOPED_TRACE(info(opcode).name);
        for (int round = 0; round < 50; round++) {
            Headers h = random_headers(opcode, random);
            Bytes payload(info(opcode).may_have_payload ? random() % 20 : 0);
            for (std::uint8_t& byte : payload) byte = static_cast<std::uint8_t>(random());
            Bytes bytes = datagram(h, payload);
            h.bth.pad_count = pad_for(payload.size());
            Packet packet;
            ASSERT_EQ(parse(bytes, packet), ParseError::none);
            EXPECT_EQ(packet.headers, h);
            EXPECT_THAT(packet.payload, ElementsAreArray(payload));
            EXPECT_EQ(packet.payload.data(), bytes.data() + header_length(opcode)) << "a view, not a copy";
        }
    }
}

// Each prefix is copied to a block of exactly its size, so that a sanitizer sees any read behind it.
TEST(Packet, EveryTruncationIsTooShort) {
    std::mt19937_64 random(2);
    for (unsigned value = 0; value < 256; value++) {
        auto opcode = static_cast<Opcode>(value);
        if (!info(opcode).valid) continue;
        SCOPED_TRACE(info(opcode).name);
        Bytes bytes = datagram(random_headers(opcode, random), {});
        for (std::size_t size = 0; size < bytes.size(); size++) {
            Bytes prefix(bytes.data(), bytes.data() + size);
            Packet packet;
            EXPECT_EQ(parse(prefix, packet), ParseError::too_short);
        }
    }
}

TEST(Packet, RefusesOtherVersionsAndOpcodes) {
    Bytes bytes = datagram(Headers{}, {});
    Packet packet;
    bytes[1] = 0x01;
    EXPECT_EQ(parse(bytes, packet), ParseError::bad_version);
    bytes[1] = 0x00;
    for (unsigned value = 0; value < 256; value++) {
        bytes[0] = static_cast<std::uint8_t>(value);
        EXPECT_EQ(parse(bytes, packet) == ParseError::unknown_opcode, !info(static_cast<Opcode>(value)).valid)
            << value;
        EXPECT_EQ(packet.headers.bth.opcode, static_cast<Opcode>(value));
    }
}

TEST(Packet, RefusesPadThatDoesNotFit) {
    Headers h;
    Bytes payload = {1, 2, 3, 4};
    for (std::uint8_t pad = 0; pad < 4; pad++) {
        Bytes bytes = datagram(h, payload);
        bytes[1] = static_cast<std::uint8_t>(pad << 4);
        Packet packet;
        ASSERT_EQ(parse(bytes, packet), ParseError::none);
        EXPECT_EQ(packet.payload.size(), 4u - pad);
        bytes.push_back(0);
        EXPECT_EQ(parse(bytes, packet), ParseError::bad_pad) << "not a multiple of four";
    }
    Bytes bytes = datagram(h, {});
    bytes[1] = 1 << 4;
    Packet packet;
    EXPECT_EQ(parse(bytes, packet), ParseError::bad_pad) << "more pad than bytes";
}

TEST(Packet, RefusesPayloadWhereThereIsNone) {
    Headers h;
    for (Opcode opcode :
         {Opcode::rc_ack, Opcode::rc_read_request, Opcode::rc_fetch_add, Opcode::xrc_atomic_ack}) {
        h.bth.opcode = opcode;
        Packet packet;
        EXPECT_EQ(parse(datagram(h, {1, 2, 3, 4}), packet), ParseError::unexpected_payload);
    }
}

TEST(Packet, ReservedBitsAreIgnored) {
    Headers h;
    h.bth.opcode = Opcode::xrc_send_only;
    Bytes bytes = datagram(h, {});
    bytes[4] |= 0x3f;
    bytes[8] |= 0x7f;
    bytes[12] = 0xff;
    Packet packet;
    ASSERT_EQ(parse(bytes, packet), ParseError::none);
    EXPECT_EQ(packet.headers, h);
}

TEST(Packet, EmitRefusesUnknownOpcodes) {
    Headers h;
    h.bth.opcode = static_cast<Opcode>(0xff);
    std::uint8_t out[kMaxHeaderLength] = {};
    EXPECT_EQ(emit(h, out), 0u);
}

TEST(Packet, PadReachesAMultipleOfFour) {
    EXPECT_EQ(pad_for(0), 0);
    EXPECT_EQ(pad_for(1), 3);
    EXPECT_EQ(pad_for(2), 2);
    EXPECT_EQ(pad_for(3), 1);
    EXPECT_EQ(pad_for(4), 0);
}

TEST(Packet, Syndromes) {
    EXPECT_EQ(ack_syndrome(), 0x1f);
    EXPECT_EQ(ack_syndrome(3), 0x03);
    EXPECT_EQ(rnr_nak(12), 0x2c);
    EXPECT_EQ(nak(NakCode::psn_sequence_error), 0x60);
    EXPECT_EQ(nak(NakCode::remote_operational), 0x63);
    EXPECT_EQ(classify(0x1f), AethKind::ack);
    EXPECT_EQ(classify(0x2c), AethKind::rnr_nak);
    EXPECT_EQ(classify(0x40), AethKind::reserved);
    EXPECT_EQ(classify(0x61), AethKind::nak);
    EXPECT_EQ(classify(0xe1), AethKind::nak) << "bit 7 is reserved";
    EXPECT_EQ(syndrome_value(0x2c), 12);
}

TEST(Packet, EveryErrorAndNakHasItsOwnText) {
    std::vector<std::string> texts;
    for (int i = 0; i <= 6; i++) texts.emplace_back(to_string(static_cast<ParseError>(i)));
    for (int i = 0; i <= 5; i++) texts.emplace_back(to_string(static_cast<NakCode>(i)));
    for (std::size_t i = 0; i < texts.size(); i++)
        for (std::size_t j = 0; j < i; j++) EXPECT_NE(texts[i], texts[j]);
}

}  // namespace
}  // namespace verbena::wire
