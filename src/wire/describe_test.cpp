#include "wire/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace verbena::wire {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string packet_text(Opcode opcode) {
    Packet packet;
    Headers& h = packet.headers;
    h.bth.opcode = opcode;
    h.bth.destination_qp = 0x11;
    h.bth.psn = 77;
    h.deth = {0x11111111, 0x22};
    h.xrceth = {0x33};
    h.reth = {0x7f00, 0x44, 4096};
    h.atomic_eth = {0x7f08, 0x55, 6, 7};
    h.aeth = {ack_syndrome(), 9};
    h.atomic_ack = 0xabc;
    const std::uint8_t immediate[] = {0x01, 0x02, 0x03, 0x04};
    std::memcpy(&h.immediate, immediate, 4);
    h.invalidate_rkey = 0x66;
    h.feth = {2, 1};
    return describe(packet);
}

TEST(Describe, Packets) {
    EXPECT_EQ(packet_text(Opcode::rc_send_only), "rc_send_only qp=0x000011 psn=77 payload=0");
    EXPECT_EQ(packet_text(Opcode::rc_ack), "rc_ack qp=0x000011 psn=77 ack msn=9");
    EXPECT_EQ(
        packet_text(Opcode::xrc_write_only_immediate),
        "xrc_write_only_immediate qp=0x000011 psn=77 srqn=0x000033 va=0x7f00 rkey=0x00000044 length=4096 "
        "immediate=0x01020304 payload=0");
    EXPECT_EQ(packet_text(Opcode::rc_compare_swap),
              "rc_compare_swap qp=0x000011 psn=77 va=0x7f08 rkey=0x00000055 compare=0x7 swap=0x6");
    EXPECT_EQ(packet_text(Opcode::rc_fetch_add),
              "rc_fetch_add qp=0x000011 psn=77 va=0x7f08 rkey=0x00000055 add=0x6");
    EXPECT_EQ(packet_text(Opcode::rc_atomic_ack),
              "rc_atomic_ack qp=0x000011 psn=77 ack msn=9 original=0xabc");
    EXPECT_EQ(packet_text(Opcode::ud_send_only),
              "ud_send_only qp=0x000011 psn=77 qkey=0x11111111 source_qp=0x000022 payload=0");
    EXPECT_EQ(packet_text(Opcode::rc_send_only_invalidate),
              "rc_send_only_invalidate qp=0x000011 psn=77 invalidate_rkey=0x00000066 payload=0");
    EXPECT_THAT(packet_text(Opcode::rc_flush), HasSubstr(" placement=2 selectivity=1 va=0x7f00"));
    EXPECT_THAT(packet_text(static_cast<Opcode>(0xff)), StartsWith("unknown opcode=0xff"));
}

TEST(Describe, BitsOfTheBth) {
    Packet packet;
    packet.headers.bth.ack_request = packet.headers.bth.solicited = true;
    packet.headers.bth.fecn = packet.headers.bth.becn = true;
    EXPECT_THAT(describe(packet), HasSubstr("psn=0 ack_request solicited fecn becn"));
}

TEST(Describe, Acknowledgements) {
    auto text = [](std::uint8_t syndrome) {
        Packet packet;
        packet.headers.bth.opcode = Opcode::rc_ack;
        packet.headers.aeth = {syndrome, 1};
        return describe(packet);
    };
    EXPECT_THAT(text(ack_syndrome(3)), HasSubstr(" ack credits=3 msn=1"));
    EXPECT_THAT(text(rnr_nak(12)), HasSubstr(" rnr_nak timer=12 msn=1"));
    EXPECT_THAT(text(nak(NakCode::remote_access)), HasSubstr(" nak=\"remote access error\" msn=1"));
    EXPECT_THAT(text(0x40), HasSubstr(" syndrome=0x40 msn=1"));
}

TEST(Describe, Req) {
    Req req;
    req.local_comm_id = 0x12;
    req.service_id = service_id(kPortSpaceTcp, 7174);
    req.local_qpn = 0x11;
    req.starting_psn = 5;
    req.path_mtu = 3;
    CmaHeader header;
    header.port = 40000;
    header.set_addresses(Gid::from_ipv4(0x0a000001), Gid::from_ipv4(0x0a000002));
    encode(header, std::span(req.private_data).first<kCmaHeaderLength>());
    std::string text = describe(req);
    EXPECT_THAT(text,
                StartsWith("REQ local_comm_id=0x00000012 service=tcp:7174 rc qpn=0x000011 psn=5 mtu=1024"));
    EXPECT_THAT(text, HasSubstr(" from=10.0.0.1:40000 to=10.0.0.2"));
    EXPECT_THAT(text, Not(HasSubstr(" srq")));

    req.srq = true;
    req.path_mtu = 0;
    req.transport_service_type = TransportServiceType::extended;
    EXPECT_THAT(describe(req), ::testing::AllOf(HasSubstr(" srq"), HasSubstr(" mtu=0 "), HasSubstr(" xrc ")));
    req.transport_service_type = TransportServiceType::uc;
    EXPECT_THAT(describe(req), HasSubstr(" uc "));
    req.transport_service_type = TransportServiceType::rd;
    EXPECT_THAT(describe(req), HasSubstr(" rd "));
    req.private_data[0] = 9;
    EXPECT_THAT(describe(req), Not(HasSubstr(" from="))) << "not an address header";
}

TEST(Describe, Services) {
    SidrReq req;
    auto text = [&](std::uint64_t id) {
        req.service_id = id;
        return describe(req);
    };
    EXPECT_THAT(text(service_id(kPortSpaceUdp, 1)), HasSubstr("service=udp:1"));
    EXPECT_THAT(text(service_id(kPortSpaceIb, 2)), HasSubstr("service=ib:2"));
    EXPECT_THAT(text(service_id(kPortSpaceIpoib, 3)), HasSubstr("service=ipoib:3"));
    EXPECT_THAT(text(0x01770004), HasSubstr("service=0x0000000001770004"));
    EXPECT_THAT(text(0x1000000000000005), HasSubstr("service=0x1000000000000005"));
}

TEST(Describe, Rejections) {
    Rej rej;
    rej.reason = RejReason::invalid_service_id;
    EXPECT_EQ(
        describe(rej),
        "REJ local_comm_id=0x00000000 remote_comm_id=0x00000000 of=REQ reason=8 \"no such service id\"");
    rej.message_rejected = CmAnswered::rep;
    EXPECT_THAT(describe(rej), HasSubstr(" of=REP "));
    rej.message_rejected = kRejectedNoMessage;
    EXPECT_THAT(describe(rej), HasSubstr(" of=none "));
    Mra mra;
    mra.message_mraed = CmAnswered::lap;
    mra.service_timeout = 24;
    EXPECT_THAT(describe(mra), HasSubstr(" of=LAP service_timeout=24"));
    mra.message_mraed = CmAnswered::none;
    EXPECT_THAT(describe(mra), HasSubstr(" of=3 "));
}

TEST(Describe, OtherMessages) {
    Rep rep;
    rep.local_qpn = 0x12;
    rep.srq = true;
    EXPECT_THAT(describe(rep),
                ::testing::AllOf(StartsWith("REP "), HasSubstr(" qpn=0x000012 "), HasSubstr(" srq")));
    Dreq dreq;
    dreq.remote_qpn = 0x13;
    EXPECT_THAT(describe(dreq), HasSubstr(" remote_qpn=0x000013"));
    SidrRep sidr;
    sidr.status = SidrStatus::rejected;
    sidr.qkey = 0x01234567;
    EXPECT_THAT(describe(sidr), ::testing::AllOf(HasSubstr(" status=2"), HasSubstr(" qkey=0x01234567")));
    Lap lap;
    lap.alternate.local_gid = Gid::from_ipv4(0x0a000001);
    EXPECT_THAT(describe(lap), HasSubstr(" from=10.0.0.1 to=::"));
    Apr apr;
    apr.ap_status = ApStatus::rejected;
    EXPECT_THAT(describe(apr), HasSubstr(" ap_status=3"));
    EXPECT_THAT(describe(Rtu{}), StartsWith("RTU local_comm_id="));
    EXPECT_THAT(describe(Drep{}), StartsWith("DREP local_comm_id="));
}

TEST(Describe, MadsByTheirAttribute) {
    std::array<std::uint8_t, kMadLength> mad{};
    MadHeader header;
    header.transaction_id = 0xabc;
    for (unsigned attribute = 0x10; attribute <= 0x1a; attribute++) {
        header.attribute_id = static_cast<CmAttribute>(attribute);
        encode(header, mad_header(std::span<std::uint8_t, kMadLength>(mad)));
        EXPECT_THAT(describe_mad(mad), StartsWith(std::string(to_string(header.attribute_id)) + " "));
        EXPECT_THAT(describe_mad(mad), HasSubstr(" tid=0xabc"));
    }
    header.attribute_id = CmAttribute::class_port_info;
    encode(header, mad_header(std::span<std::uint8_t, kMadLength>(mad)));
    EXPECT_EQ(describe_mad(mad), "CM MAD attribute=0x0001 tid=0xabc");
    header.management_class = 3;
    encode(header, mad_header(std::span<std::uint8_t, kMadLength>(mad)));
    EXPECT_EQ(describe_mad(mad), "MAD class=0x03 method=0x03 attribute=0x0001 tid=0xabc");
}

TEST(Describe, AMadInItsPacket) {
    std::array<std::uint8_t, kMadLength> mad{};
    MadHeader header;
    header.attribute_id = CmAttribute::rtu;
    encode(header, mad_header(std::span<std::uint8_t, kMadLength>(mad)));
    Packet packet;
    packet.headers.bth.opcode = Opcode::ud_send_only;
    packet.headers.bth.destination_qp = kQp1;
    packet.payload = mad;
    EXPECT_THAT(describe(packet), HasSubstr(" payload=256: RTU local_comm_id="));
    packet.headers.bth.destination_qp = 5;
    EXPECT_THAT(describe(packet), Not(HasSubstr("RTU")));
}

}  // namespace
}  // namespace verbena::wire
