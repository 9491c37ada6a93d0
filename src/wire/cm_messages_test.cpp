#include "wire/cm_messages.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <random>
#include <set>
#include <string>

namespace verbena::wire {
namespace {

using Message = std::array<std::uint8_t, kCmMessageLength>;

template <class M>
Message encoded(const M& message) {
    Message out;
    out.fill(0xee);  // every byte has to be written
    encode(message, out);
    return out;
}

// The message is zero except for `bytes` at `offset`: the field is there and touches nothing else.
template <class M>
void expect_only(const M& message, std::size_t offset, std::initializer_list<unsigned> bytes) {
    Message expected{};
    std::size_t i = offset;
    for (unsigned byte : bytes) expected[i++] = static_cast<std::uint8_t>(byte);
    EXPECT_EQ(encoded(message), expected) << "at " << offset;
}

template <class M>
M zero() {
    M message;
    decode(Message{}, message);
    return message;
}

// Sets one member of an otherwise zero message and says which bytes appear, and where: IBA 12.6's tables
// again.
#define EXPECT_FIELD(TYPE, MEMBER, VALUE, OFFSET, ...) \
    do {                                               \
        SCOPED_TRACE(#TYPE "::" #MEMBER);              \
        auto message = zero<TYPE>();                   \
        message.MEMBER = VALUE;                        \
        expect_only(message, OFFSET, {__VA_ARGS__});   \
    } while (false)

template <class M>
class CmMessage : public ::testing::Test {};
using AllMessages = ::testing::Types<Req, Mra, Rej, Rep, Rtu, Dreq, Drep, Lap, Apr, SidrReq, SidrRep>;
TYPED_TEST_SUITE(CmMessage, AllMessages);

TYPED_TEST(CmMessage, DecodeAndEncodeAreInverse) {
    std::mt19937 random(1);
    for (int round = 0; round < 2000; round++) {
        Message in;
        for (std::uint8_t& byte : in) byte = static_cast<std::uint8_t>(random());
        TypeParam message, again;
        ASSERT_TRUE(decode(in, message));
        Message out = encoded(message);
        ASSERT_EQ(in, out);
        decode(out, again);
        ASSERT_EQ(message, again);
    }
}

TYPED_TEST(CmMessage, EveryBitMakesADifference) {
    Message bytes{};
    TypeParam none, some;
    decode(bytes, none);
    for (unsigned bit = 0; bit < 8 * kCmMessageLength; bit++) {
        bytes[bit / 8] = static_cast<std::uint8_t>(1 << bit % 8);
        decode(bytes, some);
        EXPECT_FALSE(some == none) << bit;
        bytes[bit / 8] = 0;
    }
}

TEST(CmFields, Req) {
    EXPECT_FIELD(Req, local_comm_id, 0x01020304, 0, 1, 2, 3, 4);
    EXPECT_FIELD(Req, service_id, 0x0102030405060708, 8, 1, 2, 3, 4, 5, 6, 7, 8);
    EXPECT_FIELD(Req, local_ca_guid, 0x0102030405060708, 16, 1, 2, 3, 4, 5, 6, 7, 8);
    EXPECT_FIELD(Req, local_qkey, 0x01020304, 28, 1, 2, 3, 4);
    EXPECT_FIELD(Req, local_qpn, 0xff010203, 32, 1, 2, 3);
    EXPECT_FIELD(Req, responder_resources, 9, 35, 9);
    EXPECT_FIELD(Req, local_eecn, 0x010203, 36, 1, 2, 3);
    EXPECT_FIELD(Req, initiator_depth, 9, 39, 9);
    EXPECT_FIELD(Req, remote_eecn, 0x010203, 40, 1, 2, 3);
    EXPECT_FIELD(Req, remote_cm_response_timeout, 20, 43, 0xa0);
    EXPECT_FIELD(Req, transport_service_type, TransportServiceType::extended, 43, 0x06);
    EXPECT_FIELD(Req, end_to_end_flow_control, true, 43, 0x01);
    EXPECT_FIELD(Req, starting_psn, 0x010203, 44, 1, 2, 3);
    EXPECT_FIELD(Req, local_cm_response_timeout, 20, 47, 0xa0);
    EXPECT_FIELD(Req, retry_count, 7, 47, 0x07);
    EXPECT_FIELD(Req, pkey, 0xfffe, 48, 0xff, 0xfe);
    EXPECT_FIELD(Req, path_mtu, 3, 50, 0x30);
    EXPECT_FIELD(Req, rdc_exists, true, 50, 0x08);
    EXPECT_FIELD(Req, rnr_retry_count, 7, 50, 0x07);
    EXPECT_FIELD(Req, max_cm_retries, 15, 51, 0xf0);
    EXPECT_FIELD(Req, srq, true, 51, 0x08);
    EXPECT_FIELD(Req, extended_transport_type, 1, 51, 0x01);
    EXPECT_FIELD(Req, primary.local_lid, 0x0102, 52, 1, 2);
    EXPECT_FIELD(Req, primary.remote_lid, 0x0102, 54, 1, 2);
    EXPECT_FIELD(Req, primary.local_gid.bytes[0], 1, 56, 1);
    EXPECT_FIELD(Req, primary.remote_gid.bytes[15], 1, 87, 1);
    EXPECT_FIELD(Req, primary.flow_label, 0x12345, 88, 0x12, 0x34, 0x50);
    EXPECT_FIELD(Req, primary.packet_rate, 0x3f, 91, 0x3f);
    EXPECT_FIELD(Req, primary.traffic_class, 5, 92, 5);
    EXPECT_FIELD(Req, primary.hop_limit, 64, 93, 64);
    EXPECT_FIELD(Req, primary.sl, 15, 94, 0xf0);
    EXPECT_FIELD(Req, primary.subnet_local, true, 94, 0x08);
    EXPECT_FIELD(Req, primary.local_ack_timeout, 19, 95, 0x98);
    EXPECT_FIELD(Req, alternate.local_lid, 0x0102, 96, 1, 2);
    EXPECT_FIELD(Req, alternate.local_gid.bytes[0], 1, 100, 1);
    EXPECT_FIELD(Req, alternate.remote_gid.bytes[0], 1, 116, 1);
    EXPECT_FIELD(Req, alternate.flow_label, 0x12345, 132, 0x12, 0x34, 0x50);
    EXPECT_FIELD(Req, alternate.hop_limit, 64, 137, 64);
    EXPECT_FIELD(Req, alternate.local_ack_timeout, 19, 139, 0x98);
    EXPECT_FIELD(Req, private_data[0], 1, 140, 1);
    EXPECT_FIELD(Req, private_data[91], 1, 231, 1);
}

TEST(CmFields, Rep) {
    EXPECT_FIELD(Rep, local_comm_id, 0x01020304, 0, 1, 2, 3, 4);
    EXPECT_FIELD(Rep, remote_comm_id, 0x01020304, 4, 1, 2, 3, 4);
    EXPECT_FIELD(Rep, local_qkey, 0x01020304, 8, 1, 2, 3, 4);
    EXPECT_FIELD(Rep, local_qpn, 0x010203, 12, 1, 2, 3);
    EXPECT_FIELD(Rep, local_eecn, 0x010203, 16, 1, 2, 3);
    EXPECT_FIELD(Rep, starting_psn, 0x010203, 20, 1, 2, 3);
    EXPECT_FIELD(Rep, responder_resources, 9, 24, 9);
    EXPECT_FIELD(Rep, initiator_depth, 9, 25, 9);
    EXPECT_FIELD(Rep, target_ack_delay, 15, 26, 0x78);
    EXPECT_FIELD(Rep, failover_accepted, 3, 26, 0x06);
    EXPECT_FIELD(Rep, end_to_end_flow_control, true, 26, 0x01);
    EXPECT_FIELD(Rep, rnr_retry_count, 7, 27, 0xe0);
    EXPECT_FIELD(Rep, srq, true, 27, 0x10);
    EXPECT_FIELD(Rep, local_ca_guid, 0x0102030405060708, 28, 1, 2, 3, 4, 5, 6, 7, 8);
    EXPECT_FIELD(Rep, private_data[0], 1, 36, 1);
    EXPECT_FIELD(Rep, private_data[195], 1, 231, 1);
}

TEST(CmFields, RejAndMra) {
    EXPECT_FIELD(Rej, remote_comm_id, 0x01020304, 4, 1, 2, 3, 4);
    EXPECT_FIELD(Rej, message_rejected, kRejectedNoMessage, 8, 0x80);
    EXPECT_FIELD(Rej, reject_info_length, 8, 9, 0x10);
    EXPECT_FIELD(Rej, reason, RejReason::consumer_reject, 10, 0, 28);
    EXPECT_FIELD(Rej, ari[0], 1, 12, 1);
    EXPECT_FIELD(Rej, private_data[0], 1, 84, 1);
    EXPECT_FIELD(Mra, remote_comm_id, 0x01020304, 4, 1, 2, 3, 4);
    EXPECT_FIELD(Mra, message_mraed, CmAnswered::rep, 8, 0x40);
    EXPECT_FIELD(Mra, service_timeout, 24, 9, 0xc0);
    EXPECT_FIELD(Mra, private_data[0], 1, 10, 1);
}

TEST(CmFields, RtuDreqDrep) {
    EXPECT_FIELD(Rtu, remote_comm_id, 0x01020304, 4, 1, 2, 3, 4);
    EXPECT_FIELD(Rtu, private_data[0], 1, 8, 1);
    EXPECT_FIELD(Drep, local_comm_id, 0x01020304, 0, 1, 2, 3, 4);
    EXPECT_FIELD(Drep, private_data[223], 1, 231, 1);
    EXPECT_FIELD(Dreq, remote_qpn, 0x010203, 8, 1, 2, 3);
    EXPECT_FIELD(Dreq, private_data[0], 1, 12, 1);
}

TEST(CmFields, LapAndApr) {
    EXPECT_FIELD(Lap, remote_qpn, 0x010203, 12, 1, 2, 3);
    EXPECT_FIELD(Lap, remote_cm_response_timeout, 20, 15, 0xa0);
    EXPECT_FIELD(Lap, alternate.local_lid, 0x0102, 20, 1, 2);
    EXPECT_FIELD(Lap, alternate.local_gid.bytes[0], 1, 24, 1);
    EXPECT_FIELD(Lap, alternate.remote_gid.bytes[0], 1, 40, 1);
    EXPECT_FIELD(Lap, alternate.flow_label, 0x12345, 56, 0x12, 0x34, 0x50);
    EXPECT_FIELD(Lap, alternate.traffic_class, 5, 59, 5);
    EXPECT_FIELD(Lap, alternate.hop_limit, 64, 60, 64);
    EXPECT_FIELD(Lap, alternate.packet_rate, 0x3f, 61, 0x3f);
    EXPECT_FIELD(Lap, alternate.sl, 15, 62, 0xf0);
    EXPECT_FIELD(Lap, alternate.local_ack_timeout, 19, 63, 0x98);
    EXPECT_FIELD(Lap, private_data[0], 1, 64, 1);
    EXPECT_FIELD(Apr, info_length, 5, 8, 5);
    EXPECT_FIELD(Apr, ap_status, ApStatus::rejected, 9, 3);
    EXPECT_FIELD(Apr, info[0], 1, 12, 1);
    EXPECT_FIELD(Apr, private_data[0], 1, 84, 1);
}

TEST(CmFields, Sidr) {
    EXPECT_FIELD(SidrReq, request_id, 0x01020304, 0, 1, 2, 3, 4);
    EXPECT_FIELD(SidrReq, pkey, 0x0102, 4, 1, 2);
    EXPECT_FIELD(SidrReq, service_id, 0x0102030405060708, 8, 1, 2, 3, 4, 5, 6, 7, 8);
    EXPECT_FIELD(SidrReq, private_data[0], 1, 16, 1);
    EXPECT_FIELD(SidrRep, request_id, 0x01020304, 0, 1, 2, 3, 4);
    EXPECT_FIELD(SidrRep, status, SidrStatus::unsupported, 4, 1);
    EXPECT_FIELD(SidrRep, info_length, 5, 5, 5);
    EXPECT_FIELD(SidrRep, qpn, 0x010203, 8, 1, 2, 3);
    EXPECT_FIELD(SidrRep, service_id, 0x0102030405060708, 12, 1, 2, 3, 4, 5, 6, 7, 8);
    EXPECT_FIELD(SidrRep, qkey, 0x01020304, 20, 1, 2, 3, 4);
    EXPECT_FIELD(SidrRep, info[0], 1, 24, 1);
    EXPECT_FIELD(SidrRep, private_data[0], 1, 96, 1);
}

TEST(CmFields, RejectReasonsHaveTheirOwnTexts) {
    std::set<std::string> texts;
    for (unsigned reason = 1; reason <= 35; reason++) {
        if (reason == 34) continue;
        EXPECT_TRUE(texts.insert(to_string(static_cast<RejReason>(reason))).second) << reason;
    }
    EXPECT_EQ(texts.count("unknown reason"), 0u);
    EXPECT_STREQ(to_string(static_cast<RejReason>(34)), "unknown reason");
    EXPECT_STREQ(to_string(static_cast<RejReason>(8)), "no such service id");
    EXPECT_STREQ(to_string(static_cast<RejReason>(10)), "stale connection");
}

}  // namespace
}  // namespace verbena::wire
