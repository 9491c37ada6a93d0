// The messages of the communication manager (IBA 12.6), field by field, and their 232 bytes on the wire.
//
// The structs hold every bit of a message, reserved ones too, so encode(decode(bytes)) == bytes for any
// bytes. A field narrower than its type says how many bits it has; encode() drops what does not fit. No value
// is judged here: every 232 bytes decode.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/gid.h"
#include "wire/cma.h"
#include "wire/mad.h"

namespace verbena::wire {

using CmBytes = std::span<std::uint8_t, kCmMessageLength>;
using CmConstBytes = std::span<const std::uint8_t, kCmMessageLength>;

// One path of a REQ or LAP. Over RoCE only the GIDs, flow label, traffic class, hop limit and timeout mean
// something.
struct CmPath {
    std::uint16_t local_lid = 0;
    std::uint16_t remote_lid = 0;
    Gid local_gid;
    Gid remote_gid;
    std::uint32_t flow_label = 0;    // 20 bits
    std::uint8_t reserved_flow = 0;  // 6 bits in REQ, 4 in LAP
    std::uint8_t packet_rate = 0;    // 6 bits
    std::uint8_t traffic_class = 0;
    std::uint8_t hop_limit = 0;
    std::uint8_t reserved_rate = 0;  // 2 bits, LAP only
    std::uint8_t sl = 0;             // 4 bits
    bool subnet_local = false;
    std::uint8_t reserved_sl = 0;        // 3 bits
    std::uint8_t local_ack_timeout = 0;  // 5 bits: 4.096 us * 2^t
    std::uint8_t reserved_timeout = 0;   // 3 bits

    friend bool operator==(const CmPath&, const CmPath&) = default;
};

enum class TransportServiceType : std::uint8_t { rc = 0, uc = 1, rd = 2, extended = 3 };  // 3: XRC

struct Req {  // 12.6.5
    static constexpr CmAttribute kAttribute = CmAttribute::req;
    std::uint32_t local_comm_id = 0;
    std::uint32_t reserved4 = 0;
    std::uint64_t service_id = 0;
    std::uint64_t local_ca_guid = 0;
    std::uint32_t reserved24 = 0;
    std::uint32_t local_qkey = 0;
    std::uint32_t local_qpn = 0;  // 24 bits
    std::uint8_t responder_resources = 0;
    std::uint32_t local_eecn = 0;  // 24 bits
    std::uint8_t initiator_depth = 0;
    std::uint32_t remote_eecn = 0;                                           // 24 bits
    std::uint8_t remote_cm_response_timeout = 0;                             // 5 bits
    TransportServiceType transport_service_type = TransportServiceType::rc;  // 2 bits
    bool end_to_end_flow_control = false;
    std::uint32_t starting_psn = 0;              // 24 bits
    std::uint8_t local_cm_response_timeout = 0;  // 5 bits
    std::uint8_t retry_count = 0;                // 3 bits
    std::uint16_t pkey = 0;
    std::uint8_t path_mtu = 0;  // 4 bits: 1..5 = 256..4096
    bool rdc_exists = false;
    std::uint8_t rnr_retry_count = 0;  // 3 bits
    std::uint8_t max_cm_retries = 0;   // 4 bits
    bool srq = false;
    std::uint8_t extended_transport_type = 0;  // 3 bits: 1 = XRC
    CmPath primary;
    CmPath alternate;
    std::array<std::uint8_t, 92> private_data{};

    friend bool operator==(const Req&, const Req&) = default;
};

// Which message an MRA or REJ answers (12.6.6, 12.6.7).
enum class CmAnswered : std::uint8_t { req = 0, rep = 1, lap = 2, none = 3 };
const char* to_string(CmAnswered message);
inline constexpr CmAnswered kRejectedNoMessage =
    CmAnswered::lap;  // REJ: 2 = no message (timeout and the like)

struct Mra {  // 12.6.6
    static constexpr CmAttribute kAttribute = CmAttribute::mra;
    std::uint32_t local_comm_id = 0;
    std::uint32_t remote_comm_id = 0;
    CmAnswered message_mraed = CmAnswered::req;  // 2 bits
    std::uint8_t reserved8 = 0;                  // 6 bits
    std::uint8_t service_timeout = 0;            // 5 bits: 4.096 us * 2^t
    std::uint8_t reserved9 = 0;                  // 3 bits
    std::array<std::uint8_t, 222> private_data{};

    friend bool operator==(const Mra&, const Mra&) = default;
};

enum class RejReason : std::uint16_t {  // 12.6.7.2
    no_qp = 1,
    no_eec = 2,
    no_resources = 3,
    timeout = 4,
    unsupported_request = 5,
    invalid_comm_id = 6,
    invalid_comm_instance = 7,
    invalid_service_id = 8,
    invalid_transport_service_type = 9,
    stale_connection = 10,
    rdc_does_not_exist = 11,
    primary_remote_port_gid_rejected = 12,
    primary_remote_port_lid_rejected = 13,
    invalid_primary_sl = 14,
    invalid_primary_traffic_class = 15,
    invalid_primary_hop_limit = 16,
    invalid_primary_packet_rate = 17,
    alternate_remote_port_gid_rejected = 18,
    alternate_remote_port_lid_rejected = 19,
    invalid_alternate_sl = 20,
    invalid_alternate_traffic_class = 21,
    invalid_alternate_hop_limit = 22,
    invalid_alternate_packet_rate = 23,
    port_and_cm_redirection = 24,
    port_redirection = 25,
    invalid_path_mtu = 26,
    insufficient_responder_resources = 27,
    consumer_reject = 28,
    rnr_retry_count_reject = 29,
    duplicate_local_comm_id = 30,
    invalid_class_version = 31,
    invalid_primary_flow_label = 32,
    invalid_alternate_flow_label = 33,
    vendor_option_not_supported = 35,
};
// "no such service id"; "unknown reason" for a number without a name.
const char* to_string(RejReason reason);

struct Rej {  // 12.6.7
    static constexpr CmAttribute kAttribute = CmAttribute::rej;
    std::uint32_t local_comm_id = 0;
    std::uint32_t remote_comm_id = 0;
    CmAnswered message_rejected = CmAnswered::req;  // 2 bits; 2 = no message
    std::uint8_t reserved8 = 0;                     // 6 bits
    std::uint8_t reject_info_length = 0;            // 7 bits, bytes of `ari` in use
    std::uint8_t reserved9 = 0;                     // 1 bit
    RejReason reason = RejReason::consumer_reject;
    std::array<std::uint8_t, 72> ari{};  // additional reject information
    std::array<std::uint8_t, 148> private_data{};

    friend bool operator==(const Rej&, const Rej&) = default;
};

struct Rep {  // 12.6.8
    static constexpr CmAttribute kAttribute = CmAttribute::rep;
    std::uint32_t local_comm_id = 0;
    std::uint32_t remote_comm_id = 0;
    std::uint32_t local_qkey = 0;
    std::uint32_t local_qpn = 0;  // 24 bits
    std::uint8_t reserved15 = 0;
    std::uint32_t local_eecn = 0;  // 24 bits
    std::uint8_t reserved19 = 0;
    std::uint32_t starting_psn = 0;  // 24 bits
    std::uint8_t reserved23 = 0;
    std::uint8_t responder_resources = 0;
    std::uint8_t initiator_depth = 0;
    std::uint8_t target_ack_delay = 0;   // 5 bits
    std::uint8_t failover_accepted = 0;  // 2 bits
    bool end_to_end_flow_control = false;
    std::uint8_t rnr_retry_count = 0;  // 3 bits
    bool srq = false;
    std::uint8_t reserved27 = 0;  // 4 bits
    std::uint64_t local_ca_guid = 0;
    std::array<std::uint8_t, 196> private_data{};

    friend bool operator==(const Rep&, const Rep&) = default;
};

struct Rtu {  // 12.6.9
    static constexpr CmAttribute kAttribute = CmAttribute::rtu;
    std::uint32_t local_comm_id = 0;
    std::uint32_t remote_comm_id = 0;
    std::array<std::uint8_t, 224> private_data{};

    friend bool operator==(const Rtu&, const Rtu&) = default;
};

struct Dreq {  // 12.6.10
    static constexpr CmAttribute kAttribute = CmAttribute::dreq;
    std::uint32_t local_comm_id = 0;
    std::uint32_t remote_comm_id = 0;
    std::uint32_t remote_qpn = 0;  // 24 bits: the receiver's QP
    std::uint8_t reserved11 = 0;
    std::array<std::uint8_t, 220> private_data{};

    friend bool operator==(const Dreq&, const Dreq&) = default;
};

struct Drep {  // 12.6.11
    static constexpr CmAttribute kAttribute = CmAttribute::drep;
    std::uint32_t local_comm_id = 0;
    std::uint32_t remote_comm_id = 0;
    std::array<std::uint8_t, 224> private_data{};

    friend bool operator==(const Drep&, const Drep&) = default;
};

struct Lap {  // 12.8.1
    static constexpr CmAttribute kAttribute = CmAttribute::lap;
    std::uint32_t local_comm_id = 0;
    std::uint32_t remote_comm_id = 0;
    std::uint32_t reserved8 = 0;
    std::uint32_t remote_qpn = 0;                 // 24 bits
    std::uint8_t remote_cm_response_timeout = 0;  // 5 bits
    std::uint8_t reserved15 = 0;                  // 3 bits
    std::uint32_t reserved16 = 0;
    CmPath alternate;
    std::array<std::uint8_t, 168> private_data{};

    friend bool operator==(const Lap&, const Lap&) = default;
};

enum class ApStatus : std::uint8_t {  // 12.8.2.1
    loaded = 0,
    invalid_comm_id = 1,
    unsupported = 2,
    rejected = 3,
    redirect = 4,
    is_current = 5,
    qpn_mismatch = 6,
    lid_rejected = 7,
    gid_rejected = 8,
    flow_label_rejected = 9,
    traffic_class_rejected = 10,
    hop_limit_rejected = 11,
    packet_rate_rejected = 12,
    sl_rejected = 13,
};

struct Apr {  // 12.8.2
    static constexpr CmAttribute kAttribute = CmAttribute::apr;
    std::uint32_t local_comm_id = 0;
    std::uint32_t remote_comm_id = 0;
    std::uint8_t info_length = 0;
    ApStatus ap_status = ApStatus::loaded;
    std::uint16_t reserved10 = 0;
    std::array<std::uint8_t, 72> info{};
    std::array<std::uint8_t, 148> private_data{};

    friend bool operator==(const Apr&, const Apr&) = default;
};

struct SidrReq {  // 12.11.1
    static constexpr CmAttribute kAttribute = CmAttribute::sidr_req;
    std::uint32_t request_id = 0;
    std::uint16_t pkey = 0;
    std::uint16_t reserved6 = 0;
    std::uint64_t service_id = 0;
    std::array<std::uint8_t, 216> private_data{};

    friend bool operator==(const SidrReq&, const SidrReq&) = default;
};

enum class SidrStatus : std::uint8_t {  // 12.11.2.1
    success = 0,
    unsupported = 1,  // no such service id
    rejected = 2,
    no_qp = 3,
    redirect = 4,
    unsupported_version = 5,
};

struct SidrRep {  // 12.11.2
    static constexpr CmAttribute kAttribute = CmAttribute::sidr_rep;
    std::uint32_t request_id = 0;
    SidrStatus status = SidrStatus::success;
    std::uint8_t info_length = 0;
    std::uint16_t reserved6 = 0;
    std::uint32_t qpn = 0;  // 24 bits
    std::uint8_t reserved11 = 0;
    std::uint64_t service_id = 0;
    std::uint32_t qkey = 0;
    std::array<std::uint8_t, 72> info{};
    std::array<std::uint8_t, 136> private_data{};

    friend bool operator==(const SidrRep&, const SidrRep&) = default;
};

void encode(const Req& message, CmBytes out);
void encode(const Mra& message, CmBytes out);
void encode(const Rej& message, CmBytes out);
void encode(const Rep& message, CmBytes out);
void encode(const Rtu& message, CmBytes out);
void encode(const Dreq& message, CmBytes out);
void encode(const Drep& message, CmBytes out);
void encode(const Lap& message, CmBytes out);
void encode(const Apr& message, CmBytes out);
void encode(const SidrReq& message, CmBytes out);
void encode(const SidrRep& message, CmBytes out);

// Always true: every 232 bytes are a message; the result leaves room for a stricter reader.
bool decode(CmConstBytes in, Req& out);
bool decode(CmConstBytes in, Mra& out);
bool decode(CmConstBytes in, Rej& out);
bool decode(CmConstBytes in, Rep& out);
bool decode(CmConstBytes in, Rtu& out);
bool decode(CmConstBytes in, Dreq& out);
bool decode(CmConstBytes in, Drep& out);
bool decode(CmConstBytes in, Lap& out);
bool decode(CmConstBytes in, Apr& out);
bool decode(CmConstBytes in, SidrReq& out);
bool decode(CmConstBytes in, SidrRep& out);

}  // namespace verbena::wire
