// Each message's layout is written once, as a list of its fields in wire order (layout() below); a writer, a
// reader and a counter walk it. The counter proves when compiling that every layout is exactly 232 bytes.
#include "wire/cm_messages.h"

#include <cstring>
#include <type_traits>

namespace verbena::wire {
namespace {

// Big-endian bit streams. A field has at most 32 bits, so the accumulator never holds more than 39.
class Writer {
   public:
    explicit Writer(CmBytes out) : next_(out.data()) {}

    void bits(std::uint32_t value, unsigned width) {
        accumulator_ = accumulator_ << width | (value & ((std::uint64_t{1} << width) - 1));
        for (held_ += width; held_ >= 8; held_ -= 8)
            *next_++ = static_cast<std::uint8_t>(accumulator_ >> (held_ - 8));
    }
    template <class T>
    void field(const T& value, unsigned width) {
        bits(static_cast<std::uint32_t>(value), width);
    }
    void wide(const std::uint64_t& value) {
        bits(static_cast<std::uint32_t>(value >> 32), 32);
        bits(static_cast<std::uint32_t>(value), 32);
    }
    template <std::size_t N>
    void bytes(const std::array<std::uint8_t, N>& data) {
        std::memcpy(next_, data.data(), N);
        next_ += N;
    }

   private:
    std::uint8_t* next_;
    std::uint64_t accumulator_ = 0;
    unsigned held_ = 0;  // bits of the accumulator not yet written
};

class Reader {
   public:
    explicit Reader(CmConstBytes in) : next_(in.data()) {}

    std::uint32_t bits(unsigned width) {
        for (; held_ < width; held_ += 8) accumulator_ = accumulator_ << 8 | *next_++;
        held_ -= width;
        return static_cast<std::uint32_t>(accumulator_ >> held_ & ((std::uint64_t{1} << width) - 1));
    }
    template <class T>
    void field(T& value, unsigned width) {
        value = static_cast<T>(bits(width));
    }
    void wide(std::uint64_t& value) {
        value = std::uint64_t{bits(32)} << 32;
        value |= bits(32);
    }
    template <std::size_t N>
    void bytes(std::array<std::uint8_t, N>& data) {
        std::memcpy(data.data(), next_, N);
        next_ += N;
    }

   private:
    const std::uint8_t* next_;
    std::uint64_t accumulator_ = 0;
    unsigned held_ = 0;  // bits read and not yet taken
};

struct Counter {
    unsigned count = 0;
    bool ok = true;  // no field wider than its type; bytes and 64-bit fields start at a byte

    template <class T>
    constexpr void field(const T&, unsigned width) {
        ok = ok && width <= (std::is_same_v<T, bool> ? 1 : 8 * sizeof(T));
        count += width;
    }
    constexpr void wide(const std::uint64_t&) {
        ok = ok && count % 8 == 0;
        count += 64;
    }
    template <std::size_t N>
    constexpr void bytes(const std::array<std::uint8_t, N>&) {
        ok = ok && count % 8 == 0;
        count += 8 * N;
    }
};

// M is a message, const when writing.
template <class Walker, class M>
constexpr void comm_ids(Walker& w, M& m) {
    w.field(m.local_comm_id, 32);
    w.field(m.remote_comm_id, 32);
}

template <class Walker, class P>
constexpr void path_addresses(Walker& w, P& path) {
    w.field(path.local_lid, 16);
    w.field(path.remote_lid, 16);
    w.bytes(path.local_gid.bytes);
    w.bytes(path.remote_gid.bytes);
}

template <class Walker, class P>
constexpr void path_tail(Walker& w, P& path) {
    w.field(path.sl, 4);
    w.field(path.subnet_local, 1);
    w.field(path.reserved_sl, 3);
    w.field(path.local_ack_timeout, 5);
    w.field(path.reserved_timeout, 3);
}

template <class Walker, class P>
constexpr void req_path(Walker& w, P& path) {
    path_addresses(w, path);
    w.field(path.flow_label, 20);
    w.field(path.reserved_flow, 6);
    w.field(path.packet_rate, 6);
    w.field(path.traffic_class, 8);
    w.field(path.hop_limit, 8);
    path_tail(w, path);
}

template <class M, class T>
inline constexpr bool kIs = std::is_same_v<std::remove_const_t<M>, T>;

template <class Walker, class M>
constexpr void layout(Walker& w, M& m) requires kIs<M, Req> {
    w.field(m.local_comm_id, 32);
    w.field(m.reserved4, 32);
    w.wide(m.service_id);
    w.wide(m.local_ca_guid);
    w.field(m.reserved24, 32);
    w.field(m.local_qkey, 32);
    w.field(m.local_qpn, 24);
    w.field(m.responder_resources, 8);
    w.field(m.local_eecn, 24);
    w.field(m.initiator_depth, 8);
    w.field(m.remote_eecn, 24);
    w.field(m.remote_cm_response_timeout, 5);
    w.field(m.transport_service_type, 2);
    w.field(m.end_to_end_flow_control, 1);
    w.field(m.starting_psn, 24);
    w.field(m.local_cm_response_timeout, 5);
    w.field(m.retry_count, 3);
    w.field(m.pkey, 16);
    w.field(m.path_mtu, 4);
    w.field(m.rdc_exists, 1);
    w.field(m.rnr_retry_count, 3);
    w.field(m.max_cm_retries, 4);
    w.field(m.srq, 1);
    w.field(m.extended_transport_type, 3);
    req_path(w, m.primary);
    req_path(w, m.alternate);
    w.bytes(m.private_data);
}

template <class Walker, class M>
constexpr void layout(Walker& w, M& m) requires kIs<M, Mra> {
    comm_ids(w, m);
    w.field(m.message_mraed, 2);
    w.field(m.reserved8, 6);
    w.field(m.service_timeout, 5);
    w.field(m.reserved9, 3);
    w.bytes(m.private_data);
}

template <class Walker, class M>
constexpr void layout(Walker& w, M& m) requires kIs<M, Rej> {
    comm_ids(w, m);
    w.field(m.message_rejected, 2);
    w.field(m.reserved8, 6);
    w.field(m.reject_info_length, 7);
    w.field(m.reserved9, 1);
    w.field(m.reason, 16);
    w.bytes(m.ari);
    w.bytes(m.private_data);
}

template <class Walker, class M>
constexpr void layout(Walker& w, M& m) requires kIs<M, Rep> {
    comm_ids(w, m);
    w.field(m.local_qkey, 32);
    w.field(m.local_qpn, 24);
    w.field(m.reserved15, 8);
    w.field(m.local_eecn, 24);
    w.field(m.reserved19, 8);
    w.field(m.starting_psn, 24);
    w.field(m.reserved23, 8);
    w.field(m.responder_resources, 8);
    w.field(m.initiator_depth, 8);
    w.field(m.target_ack_delay, 5);
    w.field(m.failover_accepted, 2);
    w.field(m.end_to_end_flow_control, 1);
    w.field(m.rnr_retry_count, 3);
    w.field(m.srq, 1);
    w.field(m.reserved27, 4);
    w.wide(m.local_ca_guid);
    w.bytes(m.private_data);
}

template <class Walker, class M>
constexpr void layout(Walker& w, M& m) requires(kIs<M, Rtu> || kIs<M, Drep>) {
    comm_ids(w, m);
    w.bytes(m.private_data);
}

template <class Walker, class M>
constexpr void layout(Walker& w, M& m) requires kIs<M, Dreq> {
    comm_ids(w, m);
    w.field(m.remote_qpn, 24);
    w.field(m.reserved11, 8);
    w.bytes(m.private_data);
}

template <class Walker, class M>
constexpr void layout(Walker& w, M& m) requires kIs<M, Lap> {
    comm_ids(w, m);
    w.field(m.reserved8, 32);
    w.field(m.remote_qpn, 24);
    w.field(m.remote_cm_response_timeout, 5);
    w.field(m.reserved15, 3);
    w.field(m.reserved16, 32);
    path_addresses(w, m.alternate);
    w.field(m.alternate.flow_label, 20);
    w.field(m.alternate.reserved_flow, 4);
    w.field(m.alternate.traffic_class, 8);
    w.field(m.alternate.hop_limit, 8);
    w.field(m.alternate.reserved_rate, 2);
    w.field(m.alternate.packet_rate, 6);
    path_tail(w, m.alternate);
    w.bytes(m.private_data);
}

template <class Walker, class M>
constexpr void layout(Walker& w, M& m) requires kIs<M, Apr> {
    comm_ids(w, m);
    w.field(m.info_length, 8);
    w.field(m.ap_status, 8);
    w.field(m.reserved10, 16);
    w.bytes(m.info);
    w.bytes(m.private_data);
}

template <class Walker, class M>
constexpr void layout(Walker& w, M& m) requires kIs<M, SidrReq> {
    w.field(m.request_id, 32);
    w.field(m.pkey, 16);
    w.field(m.reserved6, 16);
    w.wide(m.service_id);
    w.bytes(m.private_data);
}

template <class Walker, class M>
constexpr void layout(Walker& w, M& m) requires kIs<M, SidrRep> {
    w.field(m.request_id, 32);
    w.field(m.status, 8);
    w.field(m.info_length, 8);
    w.field(m.reserved6, 16);
    w.field(m.qpn, 24);
    w.field(m.reserved11, 8);
    w.wide(m.service_id);
    w.field(m.qkey, 32);
    w.bytes(m.info);
    w.bytes(m.private_data);
}

template <class M>
consteval bool fills_the_message() {
    Counter counter;
    M message;
    layout(counter, message);
    return counter.ok && counter.count == 8 * kCmMessageLength;
}

template <class M>
void write(const M& message, CmBytes out) {
    static_assert(fills_the_message<M>());
    Writer writer(out);
    layout(writer, message);
}

template <class M>
bool read(CmConstBytes in, M& message) {
    Reader reader(in);
    layout(reader, message);
    return true;
}

}  // namespace

void encode(const Req& message, CmBytes out) { write(message, out); }
void encode(const Mra& message, CmBytes out) { write(message, out); }
void encode(const Rej& message, CmBytes out) { write(message, out); }
void encode(const Rep& message, CmBytes out) { write(message, out); }
void encode(const Rtu& message, CmBytes out) { write(message, out); }
void encode(const Dreq& message, CmBytes out) { write(message, out); }
void encode(const Drep& message, CmBytes out) { write(message, out); }
void encode(const Lap& message, CmBytes out) { write(message, out); }
void encode(const Apr& message, CmBytes out) { write(message, out); }
void encode(const SidrReq& message, CmBytes out) { write(message, out); }
void encode(const SidrRep& message, CmBytes out) { write(message, out); }

bool decode(CmConstBytes in, Req& out) { return read(in, out); }
bool decode(CmConstBytes in, Mra& out) { return read(in, out); }
bool decode(CmConstBytes in, Rej& out) { return read(in, out); }
bool decode(CmConstBytes in, Rep& out) { return read(in, out); }
bool decode(CmConstBytes in, Rtu& out) { return read(in, out); }
bool decode(CmConstBytes in, Dreq& out) { return read(in, out); }
bool decode(CmConstBytes in, Drep& out) { return read(in, out); }
bool decode(CmConstBytes in, Lap& out) { return read(in, out); }
bool decode(CmConstBytes in, Apr& out) { return read(in, out); }
bool decode(CmConstBytes in, SidrReq& out) { return read(in, out); }
bool decode(CmConstBytes in, SidrRep& out) { return read(in, out); }

const char* to_string(CmAnswered message) {
    static constexpr const char* kNames[] = {"REQ", "REP", "LAP", "none"};
    return kNames[static_cast<unsigned>(message) & 3];
}

const char* to_string(RejReason reason) {
    switch (reason) {
        case RejReason::no_qp:
            return "no QP available";
        case RejReason::no_eec:
            return "no EEC available";
        case RejReason::no_resources:
            return "no resources available";
        case RejReason::timeout:
            return "timeout";
        case RejReason::unsupported_request:
            return "unsupported request";
        case RejReason::invalid_comm_id:
            return "invalid communication id";
        case RejReason::invalid_comm_instance:
            return "invalid communication instance";
        case RejReason::invalid_service_id:
            return "no such service id";
        case RejReason::invalid_transport_service_type:
            return "invalid transport service type";
        case RejReason::stale_connection:
            return "stale connection";
        case RejReason::rdc_does_not_exist:
            return "RDC does not exist";
        case RejReason::primary_remote_port_gid_rejected:
            return "primary remote port GID rejected";
        case RejReason::primary_remote_port_lid_rejected:
            return "primary remote port LID rejected";
        case RejReason::invalid_primary_sl:
            return "invalid primary SL";
        case RejReason::invalid_primary_traffic_class:
            return "invalid primary traffic class";
        case RejReason::invalid_primary_hop_limit:
            return "invalid primary hop limit";
        case RejReason::invalid_primary_packet_rate:
            return "invalid primary packet rate";
        case RejReason::alternate_remote_port_gid_rejected:
            return "alternate remote port GID rejected";
        case RejReason::alternate_remote_port_lid_rejected:
            return "alternate remote port LID rejected";
        case RejReason::invalid_alternate_sl:
            return "invalid alternate SL";
        case RejReason::invalid_alternate_traffic_class:
            return "invalid alternate traffic class";
        case RejReason::invalid_alternate_hop_limit:
            return "invalid alternate hop limit";
        case RejReason::invalid_alternate_packet_rate:
            return "invalid alternate packet rate";
        case RejReason::port_and_cm_redirection:
            return "port and CM redirection";
        case RejReason::port_redirection:
            return "port redirection";
        case RejReason::invalid_path_mtu:
            return "invalid path MTU";
        case RejReason::insufficient_responder_resources:
            return "insufficient responder resources";
        case RejReason::consumer_reject:
            return "rejected by the listening program";
        case RejReason::rnr_retry_count_reject:
            return "RNR retry count rejected";
        case RejReason::duplicate_local_comm_id:
            return "duplicate local communication id";
        case RejReason::invalid_class_version:
            return "invalid class version";
        case RejReason::invalid_primary_flow_label:
            return "invalid primary flow label";
        case RejReason::invalid_alternate_flow_label:
            return "invalid alternate flow label";
        case RejReason::vendor_option_not_supported:
            return "vendor option not supported";
    }
    return "unknown reason";
}

}  // namespace verbena::wire
