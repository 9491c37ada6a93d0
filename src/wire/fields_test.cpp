#include "wire/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "wire/cm_messages.h"
#include "wire/describe.h"

namespace verbena::wire {
namespace {

using ::testing::HasSubstr;

std::vector<Field> fields_of(CmAttribute attribute, void (*fill)(CmBytes)) {
    std::array<std::uint8_t, kMadLength> mad{};
    MadHeader header;
    header.attribute_id = attribute;
    header.transaction_id = 0xabc;
    encode(header, std::span(mad).first<kMadHeaderLength>());
    fill(cm_message(std::span<std::uint8_t, kMadLength>(mad)));
    Packet packet;
    packet.headers.bth.opcode = Opcode::ud_send_only;
    packet.headers.bth.destination_qp = kQp1;
    packet.payload = mad;
    return fields(packet);
}

TEST(Fields, OfARequest) {
    const auto found = fields_of(CmAttribute::req, [](CmBytes out) {
        Req req;
        req.local_comm_id = 0x12;
        req.service_id = service_id(kPortSpaceTcp, 7471);
        req.local_ca_guid = 0x1234;
        req.local_qpn = 0x55;
        req.starting_psn = 99;
        req.path_mtu = 3;
        CmaHeader cma;
        cma.port = 4000;
        cma.set_addresses(Gid::from_ipv4(0x0a000001), Gid::from_ipv4(0x0a000002));
        encode(cma, std::span(req.private_data).first<kCmaHeaderLength>());
        req.private_data[kCmaHeaderLength] = 'h';
        req.private_data[kCmaHeaderLength + 1] = '<';
        encode(req, out);
    });
    EXPECT_EQ(value_of(found, "MAD", "Attribute ID"), "0x0010 REQ");
    EXPECT_EQ(value_of(found, "REQ", "Local communication ID"), "0x00000012");
    EXPECT_THAT(value_of(found, "REQ", "Service ID"), HasSubstr("(RDMA_PS_TCP, port 7471)"));
    EXPECT_EQ(value_of(found, "REQ", "Local CA GUID"), "0x0000000000001234");
    EXPECT_EQ(value_of(found, "REQ", "Starting PSN"), "99");
    EXPECT_EQ(value_of(found, "REQ", "Path packet payload MTU"), "3 (1024 bytes)");
    EXPECT_EQ(value_of(found, "REQ", "Source address (CMA header)"), "10.0.0.1");
    EXPECT_EQ(value_of(found, "REQ", "Private data"), "68 3c");
    EXPECT_EQ(value_of(found, "REQ", "Private data as text"), "h<");
    EXPECT_EQ(value_of(found, "REP", "Starting PSN"), "");
}

TEST(Fields, OfEveryMessage) {
    for (unsigned attribute = 0x10; attribute <= 0x1a; attribute++) {
        const auto found = fields_of(static_cast<CmAttribute>(attribute), [](CmBytes) {});
        const char* name = to_string(static_cast<CmAttribute>(attribute));
        EXPECT_STREQ(found.back().header, name);
        EXPECT_EQ(found.back().name, std::string("Private data")) << name;
    }
}

TEST(Fields, OfARejection) {
    const auto found = fields_of(CmAttribute::rej, [](CmBytes out) {
        Rej rej;
        rej.reason = RejReason::invalid_service_id;
        encode(rej, out);
    });
    EXPECT_EQ(value_of(found, "REJ", "Reason"), std::string("8 ") + to_string(RejReason::invalid_service_id));
}

// Whatever an opcode has, its fields name; nothing else.
TEST(Fields, FollowTheOpcode) {
    for (unsigned number = 0; number < 256; number++) {
        Packet packet;
        packet.headers.bth.opcode = static_cast<Opcode>(number);
        const OpcodeInfo& opcode = info(packet.headers.bth.opcode);
        std::set<std::string> headers;
        for (const Field& field : fields(packet)) headers.insert(field.header);
        EXPECT_TRUE(headers.contains("BTH"));
        EXPECT_EQ(headers.contains("RETH"), opcode.has_reth) << opcode.name;
        EXPECT_EQ(headers.contains("AETH"), opcode.has_aeth) << opcode.name;
        EXPECT_EQ(headers.contains("DETH"), opcode.has_deth) << opcode.name;
        EXPECT_EQ(headers.contains("XRCETH"), opcode.has_xrceth) << opcode.name;
        EXPECT_EQ(headers.contains("AtomicETH"), opcode.has_atomic_eth) << opcode.name;
        EXPECT_EQ(headers.contains("ImmDt"), opcode.has_immdt) << opcode.name;
        EXPECT_EQ(headers.contains("payload"), opcode.may_have_payload) << opcode.name;
    }
}

TEST(Fields, BytesAreCutWhereTold) {
    const std::array<std::uint8_t, 3> bytes{0x41, 0x00, 0xff};
    EXPECT_EQ(hex(bytes, 8), "41 00 ff");
    EXPECT_EQ(hex(bytes, 2), "41 00 ... (3 bytes)");
    EXPECT_EQ(characters(bytes, 8), "A..");
}

}  // namespace
}  // namespace verbena::wire
