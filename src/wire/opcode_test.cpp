#include "wire/opcode.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

namespace verbena::wire {
namespace {

// Every opcode that exists and the length of its headers, written down apart from the table under test.
const std::map<unsigned, unsigned> kLengths = {
    // RC
    {0x00, 12},
    {0x01, 12},
    {0x02, 12},
    {0x03, 16},
    {0x04, 12},
    {0x05, 16},
    {0x06, 28},
    {0x07, 12},
    {0x08, 12},
    {0x09, 16},
    {0x0a, 28},
    {0x0b, 32},
    {0x0c, 28},
    {0x0d, 16},
    {0x0e, 12},
    {0x0f, 16},
    {0x10, 16},
    {0x11, 16},
    {0x12, 24},
    {0x13, 40},
    {0x14, 40},
    {0x16, 16},
    {0x17, 16},
    {0x1c, 32},
    {0x1d, 28},
    // UC
    {0x20, 12},
    {0x21, 12},
    {0x22, 12},
    {0x23, 16},
    {0x24, 12},
    {0x25, 16},
    {0x26, 28},
    {0x27, 12},
    {0x28, 12},
    {0x29, 16},
    {0x2a, 28},
    {0x2b, 32},
    // UD, congestion notification
    {0x64, 20},
    {0x65, 24},
    {0x81, 12},
    // XRC: four more bytes in requests, none in responses
    {0xa0, 16},
    {0xa1, 16},
    {0xa2, 16},
    {0xa3, 20},
    {0xa4, 16},
    {0xa5, 20},
    {0xa6, 32},
    {0xa7, 16},
    {0xa8, 16},
    {0xa9, 20},
    {0xaa, 32},
    {0xab, 36},
    {0xac, 32},
    {0xad, 16},
    {0xae, 12},
    {0xaf, 16},
    {0xb0, 16},
    {0xb1, 16},
    {0xb2, 24},
    {0xb3, 44},
    {0xb4, 44},
    {0xb6, 20},
    {0xb7, 20},
    {0xbc, 36},
    {0xbd, 32},
};

TEST(Opcode, EveryValueIsKnownOrInvalid) {
    for (unsigned value = 0; value < 256; value++) {
        auto opcode = static_cast<Opcode>(value);
        auto expected = kLengths.find(value);
        SCOPED_TRACE(value);
        EXPECT_EQ(info(opcode).valid, expected != kLengths.end());
        EXPECT_EQ(header_length(opcode), expected == kLengths.end() ? 0 : expected->second);
    }
}

TEST(Opcode, EachIsARequestOrAResponseAndHasOnePlace) {
    std::set<std::string> names;
    for (auto [value, length] : kLengths) {
        SCOPED_TRACE(value);
        const OpcodeInfo& i = info(static_cast<Opcode>(value));
        EXPECT_EQ(i.first + i.middle + i.last + i.only, 1);
        EXPECT_EQ(i.request + i.response, i.service == Service::cnp ? 0 : 1);
        EXPECT_EQ(static_cast<unsigned>(i.service), value >> 5);
        EXPECT_TRUE(names.insert(i.name).second) << i.name;
    }
}

TEST(Opcode, NamesAreTheEnumerators) {
    EXPECT_STREQ(info(Opcode::rc_send_first).name, "rc_send_first");
    EXPECT_STREQ(info(Opcode::rc_atomic_write).name, "rc_atomic_write");
    EXPECT_STREQ(info(Opcode::uc_write_last_immediate).name, "uc_write_last_immediate");
    EXPECT_STREQ(info(Opcode::ud_send_only_immediate).name, "ud_send_only_immediate");
    EXPECT_STREQ(info(Opcode::xrc_send_only_invalidate).name, "xrc_send_only_invalidate");
    EXPECT_STREQ(info(static_cast<Opcode>(0xff)).name, "unknown");
}

TEST(Opcode, ExtendedHeaders) {
    const OpcodeInfo& write = info(Opcode::xrc_write_only_immediate);
    EXPECT_TRUE(write.has_xrceth && write.has_reth && write.has_immdt && write.may_have_payload);
    EXPECT_FALSE(write.has_deth || write.has_aeth || write.has_ieth || write.has_feth ||
                 write.has_atomic_eth);
    const OpcodeInfo& atomic = info(Opcode::rc_atomic_ack);
    EXPECT_TRUE(atomic.has_aeth && atomic.has_atomic_ack && atomic.response);
    EXPECT_FALSE(atomic.may_have_payload);
    EXPECT_TRUE(info(Opcode::rc_flush).has_feth && info(Opcode::rc_flush).has_reth);
    EXPECT_TRUE(info(Opcode::rc_send_last_invalidate).has_ieth);
    EXPECT_TRUE(info(Opcode::ud_send_only).has_deth);
    EXPECT_TRUE(info(Opcode::rc_compare_swap).has_atomic_eth);
    EXPECT_FALSE(info(Opcode::rc_read_response_middle).has_aeth);
    EXPECT_FALSE(info(Opcode::xrc_ack).has_xrceth);
}

TEST(Opcode, PlaceInTheMessage) {
    EXPECT_TRUE(info(Opcode::rc_send_first).starts_message());
    EXPECT_FALSE(info(Opcode::rc_send_first).ends_message());
    EXPECT_FALSE(info(Opcode::uc_write_middle).starts_message());
    EXPECT_FALSE(info(Opcode::uc_write_middle).ends_message());
    EXPECT_TRUE(info(Opcode::rc_read_response_last).ends_message());
    EXPECT_TRUE(info(Opcode::rc_fetch_add).starts_message());
    EXPECT_TRUE(info(Opcode::rc_fetch_add).ends_message());
}

TEST(Opcode, Operations) {
    EXPECT_EQ(info(Opcode::rc_send_only_invalidate).operation, Operation::send);
    EXPECT_EQ(info(Opcode::uc_write_first).operation, Operation::write);
    EXPECT_EQ(info(Opcode::xrc_read_request).operation, Operation::read_request);
    EXPECT_EQ(info(Opcode::rc_read_response_middle).operation, Operation::read_response);
    EXPECT_EQ(info(Opcode::rc_ack).operation, Operation::acknowledge);
    EXPECT_EQ(info(Opcode::cnp).operation, Operation::cnp);
}

TEST(Opcode, WithServiceKeepsTheOperation) {
    EXPECT_EQ(with_service(Opcode::rc_write_only, Service::uc), Opcode::uc_write_only);
    EXPECT_EQ(with_service(Opcode::uc_send_last, Service::xrc), Opcode::xrc_send_last);
    EXPECT_EQ(with_service(Opcode::rc_send_only, Service::ud), Opcode::ud_send_only);
}

}  // namespace
}  // namespace verbena::wire
