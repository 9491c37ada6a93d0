#include "wire/describe.h"

#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "wire/byte_order.h"

namespace verbena::wire {
namespace {

[[gnu::format(printf, 2, 3)]] void append(std::string& text, const char* format, ...) {
    char piece[160];
    std::va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(piece, sizeof piece, format, arguments);
    va_end(arguments);
    text += piece;
}

void append_aeth(std::string& text, const Aeth& aeth) {
    unsigned value = syndrome_value(aeth.syndrome);
    switch (classify(aeth.syndrome)) {
        case AethKind::ack:
            if (value == kInvalidCredits)
                text += " ack";
            else
                append(text, " ack credits=%u", value);
            break;
        case AethKind::rnr_nak:
            append(text, " rnr_nak timer=%u", value);
            break;
        case AethKind::nak:
            append(text, " nak=\"%s\"", to_string(static_cast<NakCode>(value)));
            break;
        case AethKind::reserved:
            append(text, " syndrome=0x%02x", aeth.syndrome);
            break;
    }
    append(text, " msn=%u", aeth.msn);
}

void append_extended(std::string& text, const Headers& h, const OpcodeInfo& opcode) {
    if (opcode.has_deth) append(text, " qkey=0x%08x source_qp=0x%06x", h.deth.qkey, h.deth.source_qp);
    if (opcode.has_xrceth) append(text, " srqn=0x%06x", h.xrceth.srqn);
    if (opcode.has_feth)
        append(text, " placement=%u selectivity=%u", h.feth.placement_type, h.feth.selectivity_level);
    if (opcode.has_reth)
        append(text, " va=0x%" PRIx64 " rkey=0x%08x length=%u", h.reth.virtual_address, h.reth.rkey,
               h.reth.length);
    if (opcode.has_atomic_eth) {
        append(text, " va=0x%" PRIx64 " rkey=0x%08x", h.atomic_eth.virtual_address, h.atomic_eth.rkey);
        if (opcode.operation == Operation::compare_swap)
            append(text, " compare=0x%" PRIx64 " swap=0x%" PRIx64, h.atomic_eth.compare,
                   h.atomic_eth.swap_add);
        else
            append(text, " add=0x%" PRIx64, h.atomic_eth.swap_add);
    }
    if (opcode.has_aeth) append_aeth(text, h.aeth);
    if (opcode.has_atomic_ack) append(text, " original=0x%" PRIx64, h.atomic_ack);
    if (opcode.has_immdt) {
        // In wire order, as a debugger on the wire shows it.
        std::uint8_t bytes[kImmDtLength];
        std::memcpy(bytes, &h.immediate, sizeof bytes);
        append(text, " immediate=0x%08x", load_be32(bytes));
    }
    if (opcode.has_ieth) append(text, " invalidate_rkey=0x%08x", h.invalidate_rkey);
}

void append_service(std::string& text, std::uint64_t id) {
    if (!is_ip_service(id)) {
        append(text, " service=0x%016" PRIx64, id);
        return;
    }
    switch (service_port_space(id)) {
        case kPortSpaceTcp:
            append(text, " service=tcp:%u", service_port(id));
            break;
        case kPortSpaceUdp:
            append(text, " service=udp:%u", service_port(id));
            break;
        case kPortSpaceIb:
            append(text, " service=ib:%u", service_port(id));
            break;
        case kPortSpaceIpoib:
            append(text, " service=ipoib:%u", service_port(id));
            break;
        default:
            append(text, " service=0x%016" PRIx64, id);
    }
}

void append_cma(std::string& text, std::uint64_t id, std::span<const std::uint8_t> private_data) {
    CmaHeader header;
    if (!is_ip_service(id) || !decode(private_data.first<kCmaHeaderLength>(), header)) return;
    text += " from=" + to_string(header.source_gid());
    append(text, ":%u", header.port);
    text += " to=" + to_string(header.destination_gid());
}

template <class M>
std::string with_ids(const M& m) {
    std::string text = to_string(M::kAttribute);
    append(text, " local_comm_id=0x%08x remote_comm_id=0x%08x", m.local_comm_id, m.remote_comm_id);
    return text;
}

// The reserved value is shown as the number that it is.
const char* answered(CmAnswered message) { return message == CmAnswered::none ? "3" : to_string(message); }

const char* service_type(TransportServiceType type) {
    switch (type) {
        case TransportServiceType::rc:
            return "rc";
        case TransportServiceType::uc:
            return "uc";
        case TransportServiceType::rd:
            return "rd";
        case TransportServiceType::extended:
            break;
    }
    return "xrc";
}

template <class M>
std::string describe_as(std::span<const std::uint8_t, kMadLength> mad) {
    M message;
    decode(cm_message(mad), message);
    return describe(message);
}

std::string describe_message(CmAttribute attribute, std::span<const std::uint8_t, kMadLength> mad) {
    switch (attribute) {
        case CmAttribute::req:
            return describe_as<Req>(mad);
        case CmAttribute::mra:
            return describe_as<Mra>(mad);
        case CmAttribute::rej:
            return describe_as<Rej>(mad);
        case CmAttribute::rep:
            return describe_as<Rep>(mad);
        case CmAttribute::rtu:
            return describe_as<Rtu>(mad);
        case CmAttribute::dreq:
            return describe_as<Dreq>(mad);
        case CmAttribute::drep:
            return describe_as<Drep>(mad);
        case CmAttribute::sidr_req:
            return describe_as<SidrReq>(mad);
        case CmAttribute::sidr_rep:
            return describe_as<SidrRep>(mad);
        case CmAttribute::lap:
            return describe_as<Lap>(mad);
        case CmAttribute::apr:
            return describe_as<Apr>(mad);
        case CmAttribute::class_port_info:
            break;
    }
    std::string text = "CM MAD";
    append(text, " attribute=0x%04x", static_cast<unsigned>(attribute));
    return text;
}

}  // namespace

std::string describe(const Packet& packet) {
    const Headers& h = packet.headers;
    const OpcodeInfo& opcode = info(h.bth.opcode);
    std::string text = opcode.name;
    if (!opcode.valid) append(text, " opcode=0x%02x", static_cast<unsigned>(h.bth.opcode));
    append(text, " qp=0x%06x psn=%u", h.bth.destination_qp, h.bth.psn);
    if (h.bth.ack_request) text += " ack_request";
    if (h.bth.solicited) text += " solicited";
    if (h.bth.fecn) text += " fecn";
    if (h.bth.becn) text += " becn";
    append_extended(text, h, opcode);
    if (opcode.may_have_payload) append(text, " payload=%zu", packet.payload.size());
    if (opcode.has_deth && h.bth.destination_qp == kQp1 && packet.payload.size() == kMadLength)
        text += ": " + describe_mad(packet.payload.first<kMadLength>());
    return text;
}

std::string describe_mad(std::span<const std::uint8_t, kMadLength> mad) {
    MadHeader header;
    decode(mad_header(mad), header);
    std::string text;
    if (is_cm(header)) {
        text = describe_message(header.attribute_id, mad);
    } else {
        append(text, "MAD class=0x%02x method=0x%02x attribute=0x%04x", header.management_class,
               header.method, static_cast<unsigned>(header.attribute_id));
    }
    append(text, " tid=0x%" PRIx64, header.transaction_id);
    return text;
}

std::string describe(const Req& m) {
    std::string text = to_string(m.kAttribute);
    append(text, " local_comm_id=0x%08x", m.local_comm_id);
    append_service(text, m.service_id);
    append(text, " %s qpn=0x%06x psn=%u", service_type(m.transport_service_type), m.local_qpn,
           m.starting_psn);
    append(text, " mtu=%u", m.path_mtu >= 1 && m.path_mtu <= 5 ? 128u << m.path_mtu : 0u);
    append(text, " responder_resources=%u initiator_depth=%u retry=%u rnr_retry=%u", m.responder_resources,
           m.initiator_depth, m.retry_count, m.rnr_retry_count);
    append(text, " ack_timeout=%u cm_timeout=%u cm_retries=%u", m.primary.local_ack_timeout,
           m.remote_cm_response_timeout, m.max_cm_retries);
    if (m.srq) text += " srq";
    append_cma(text, m.service_id, m.private_data);
    return text;
}

std::string describe(const Mra& m) {
    std::string text = with_ids(m);
    append(text, " of=%s service_timeout=%u", answered(m.message_mraed), m.service_timeout);
    return text;
}

std::string describe(const Rej& m) {
    std::string text = with_ids(m);
    append(text, " of=%s reason=%u \"%s\"",
           m.message_rejected == kRejectedNoMessage ? "none" : answered(m.message_rejected),
           static_cast<unsigned>(m.reason), to_string(m.reason));
    return text;
}

std::string describe(const Rep& m) {
    std::string text = with_ids(m);
    append(text, " qpn=0x%06x psn=%u responder_resources=%u initiator_depth=%u rnr_retry=%u", m.local_qpn,
           m.starting_psn, m.responder_resources, m.initiator_depth, m.rnr_retry_count);
    if (m.srq) text += " srq";
    return text;
}

std::string describe(const Rtu& m) { return with_ids(m); }

std::string describe(const Dreq& m) {
    std::string text = with_ids(m);
    append(text, " remote_qpn=0x%06x", m.remote_qpn);
    return text;
}

std::string describe(const Drep& m) { return with_ids(m); }

std::string describe(const Lap& m) {
    std::string text = with_ids(m);
    append(text, " remote_qpn=0x%06x", m.remote_qpn);
    text += " from=" + to_string(m.alternate.local_gid) + " to=" + to_string(m.alternate.remote_gid);
    return text;
}

std::string describe(const Apr& m) {
    std::string text = with_ids(m);
    append(text, " ap_status=%u", static_cast<unsigned>(m.ap_status));
    return text;
}

std::string describe(const SidrReq& m) {
    std::string text = to_string(m.kAttribute);
    append(text, " request_id=0x%08x", m.request_id);
    append_service(text, m.service_id);
    append_cma(text, m.service_id, m.private_data);
    return text;
}

std::string describe(const SidrRep& m) {
    std::string text = to_string(m.kAttribute);
    append(text, " request_id=0x%08x status=%u", m.request_id, static_cast<unsigned>(m.status));
    append_service(text, m.service_id);
    append(text, " qpn=0x%06x qkey=0x%08x", m.qpn, m.qkey);
    return text;
}

}  // namespace verbena::wire
