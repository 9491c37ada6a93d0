#include "wire/fields.h"

#include <algorithm>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "wire/byte_order.h"
#include "wire/cm_messages.h"

namespace verbena::wire {
namespace {

constexpr std::size_t kPayloadShown = 64;
constexpr std::size_t kPrivateDataShown = 224;

// Collects the fields of one header after the other.
class Table {
   public:
    explicit Table(std::vector<Field>& fields) : fields_(fields) {}
    void header(const char* name) { header_ = name; }
    void text(const char* name, std::string value) { fields_.push_back({header_, name, std::move(value)}); }
    [[gnu::format(printf, 3, 4)]] void add(const char* name, const char* format, ...) {
        char value[120];
        std::va_list arguments;
        va_start(arguments, format);
        std::vsnprintf(value, sizeof value, format, arguments);
        va_end(arguments);
        text(name, value);
    }
    void number(const char* name, std::uint32_t value) { add(name, "%u", value); }
    void flag(const char* name, bool value) { add(name, "%d", value); }
    void word(const char* name, std::uint64_t value, int digits) { add(name, "0x%0*" PRIx64, digits, value); }
    void qpn(const char* name, std::uint32_t value) { word(name, value, 6); }
    // 4.096 us * 2^exponent
    void timeout(const char* name, unsigned exponent) {
        add(name, "%u (%.3g ms)", exponent, 0.004096 * static_cast<double>(std::uint64_t{1} << exponent));
    }

   private:
    std::vector<Field>& fields_;
    const char* header_ = "";
};

void add_bth(Table& table, const Bth& bth, const OpcodeInfo& opcode) {
    table.header("BTH");
    table.add("OpCode", "0x%02x %s", static_cast<unsigned>(bth.opcode), opcode.name);
    table.flag("Solicited event (SE)", bth.solicited);
    table.flag("Migration state (M)", bth.migration_request);
    table.number("Pad count", bth.pad_count);
    table.number("Transport version (TVer)", bth.version);
    table.word("Partition key (P_Key)", bth.pkey, 4);
    if (bth.fecn) table.flag("FECN", true);
    if (bth.becn) table.flag("BECN", true);
    table.qpn("Destination QP", bth.destination_qp);
    table.flag("Acknowledge request (A)", bth.ack_request);
    table.number("PSN", bth.psn);
}

void add_aeth(Table& table, const Aeth& aeth) {
    table.header("AETH");
    const unsigned value = syndrome_value(aeth.syndrome);
    switch (classify(aeth.syndrome)) {
        case AethKind::ack:
            if (value == kInvalidCredits)
                table.add("Syndrome", "0x%02x ACK", aeth.syndrome);
            else
                table.add("Syndrome", "0x%02x ACK, %u credits", aeth.syndrome, value);
            break;
        case AethKind::rnr_nak:
            table.add("Syndrome", "0x%02x RNR NAK, timer %u", aeth.syndrome, value);
            break;
        case AethKind::nak:
            table.add("Syndrome", "0x%02x NAK, %s", aeth.syndrome, to_string(static_cast<NakCode>(value)));
            break;
        case AethKind::reserved:
            table.add("Syndrome", "0x%02x reserved", aeth.syndrome);
            break;
    }
    table.number("MSN", aeth.msn);
}

void add_extended(Table& table, const Headers& h, const OpcodeInfo& opcode) {
    if (opcode.has_deth) {
        table.header("DETH");
        table.word("Queue key (Q_Key)", h.deth.qkey, 8);
        table.qpn("Source QP", h.deth.source_qp);
    }
    if (opcode.has_xrceth) {
        table.header("XRCETH");
        table.qpn("XRC SRQ", h.xrceth.srqn);
    }
    if (opcode.has_feth) {
        table.header("FETH");
        table.number("Placement type", h.feth.placement_type);
        table.number("Selectivity level", h.feth.selectivity_level);
    }
    if (opcode.has_reth) {
        table.header("RETH");
        table.word("Virtual address", h.reth.virtual_address, 16);
        table.word("Remote key (R_Key)", h.reth.rkey, 8);
        table.number("DMA length", h.reth.length);
    }
    if (opcode.has_atomic_eth) {
        const AtomicEth& atomic = h.atomic_eth;
        table.header("AtomicETH");
        table.word("Virtual address", atomic.virtual_address, 16);
        table.word("Remote key (R_Key)", atomic.rkey, 8);
        table.word("Swap (or add) data", atomic.swap_add, 16);
        table.word("Compare data", atomic.compare, 16);
    }
    if (opcode.has_aeth) add_aeth(table, h.aeth);
    if (opcode.has_atomic_ack) {
        table.header("AtomicAckETH");
        table.word("Original remote data", h.atomic_ack, 16);
    }
    if (opcode.has_immdt) {
        std::uint8_t bytes[kImmDtLength];  // in wire order
        std::memcpy(bytes, &h.immediate, sizeof bytes);
        table.header("ImmDt");
        table.word("Immediate data", load_be32(bytes), 8);
    }
    if (opcode.has_ieth) {
        table.header("IETH");
        table.word("R_Key to invalidate", h.invalidate_rkey, 8);
    }
}

void add_private_data(Table& table, std::span<const std::uint8_t> data) {
    // How long it is, the wire does not say: messages are filled up with zeros.
    std::size_t length = data.size();
    while (length > 0 && data[length - 1] == 0) length--;
    if (length == 0) return table.text("Private data", "zeros");
    table.text("Private data", hex(data.first(length), kPrivateDataShown));
    table.text("Private data as text", characters(data.first(length), kPrivateDataShown));
}

void add_service(Table& table, std::uint64_t id, std::span<const std::uint8_t>& private_data) {
    static constexpr struct {
        std::uint16_t number;
        const char* name;
    } kSpaces[] = {{kPortSpaceTcp, "RDMA_PS_TCP"},
                   {kPortSpaceUdp, "RDMA_PS_UDP"},
                   {kPortSpaceIb, "RDMA_PS_IB"},
                   {kPortSpaceIpoib, "RDMA_PS_IPOIB"}};
    const char* space = nullptr;
    for (const auto& known : kSpaces)
        if (is_ip_service(id) && known.number == service_port_space(id)) space = known.name;
    if (!space) return table.word("Service ID", id, 16);
    table.add("Service ID", "0x%016" PRIx64 " (%s, port %u)", id, space, service_port(id));
    CmaHeader cma;
    if (private_data.size() < kCmaHeaderLength || !decode(private_data.first<kCmaHeaderLength>(), cma))
        return;
    table.text("Source address (CMA header)", to_string(cma.source_gid()));
    table.number("Source port (CMA header)", cma.port);
    table.text("Destination address (CMA header)", to_string(cma.destination_gid()));
    private_data = private_data.subspan(kCmaHeaderLength);
}

void add_path(Table& table, const CmPath& path) {
    table.text("Local port GID", to_string(path.local_gid));
    table.text("Remote port GID", to_string(path.remote_gid));
    table.word("Flow label", path.flow_label, 5);
    table.number("Traffic class", path.traffic_class);
    table.number("Hop limit", path.hop_limit);
    table.timeout("Local ACK timeout", path.local_ack_timeout);
}

template <class M>
void add_ids(Table& table, const M& m) {
    table.word("Local communication ID", m.local_comm_id, 8);
    table.word("Remote communication ID", m.remote_comm_id, 8);
}

void add(Table& table, const Req& m) {
    std::span<const std::uint8_t> private_data = m.private_data;
    table.word("Local communication ID", m.local_comm_id, 8);
    add_service(table, m.service_id, private_data);
    table.word("Local CA GUID", m.local_ca_guid, 16);
    table.word("Local Q_Key", m.local_qkey, 8);
    table.qpn("Local QPN", m.local_qpn);
    table.number("Responder resources", m.responder_resources);
    table.number("Initiator depth", m.initiator_depth);
    table.timeout("Remote CM response timeout", m.remote_cm_response_timeout);
    static constexpr const char* kServices[] = {"RC", "UC", "RD", "XRC"};
    table.text("Transport service type", kServices[static_cast<unsigned>(m.transport_service_type) & 3]);
    table.flag("End-to-end flow control", m.end_to_end_flow_control);
    table.number("Starting PSN", m.starting_psn);
    table.timeout("Local CM response timeout", m.local_cm_response_timeout);
    table.number("Retry count", m.retry_count);
    table.word("Partition key (P_Key)", m.pkey, 4);
    table.add("Path packet payload MTU", "%u (%u bytes)", m.path_mtu,
              m.path_mtu >= 1 && m.path_mtu <= 5 ? 128u << m.path_mtu : 0u);
    table.number("RNR retry count", m.rnr_retry_count);
    table.number("Max CM retries", m.max_cm_retries);
    table.flag("SRQ", m.srq);
    add_path(table, m.primary);
    add_private_data(table, private_data);
}

void add(Table& table, const Mra& m) {
    add_ids(table, m);
    table.text("Message MRAed", to_string(m.message_mraed));
    table.timeout("Service timeout", m.service_timeout);
    add_private_data(table, m.private_data);
}

void add(Table& table, const Rej& m) {
    add_ids(table, m);
    table.text("Message REJected",
               m.message_rejected == kRejectedNoMessage ? "none" : to_string(m.message_rejected));
    table.add("Reason", "%u %s", static_cast<unsigned>(m.reason), to_string(m.reason));
    table.number("Reject info length", m.reject_info_length);
    if (const std::size_t length = std::min<std::size_t>(m.reject_info_length, m.ari.size()))
        table.text("Additional reject information", hex(std::span(m.ari).first(length), kPrivateDataShown));
    add_private_data(table, m.private_data);
}

void add(Table& table, const Rep& m) {
    add_ids(table, m);
    table.word("Local Q_Key", m.local_qkey, 8);
    table.qpn("Local QPN", m.local_qpn);
    table.number("Starting PSN", m.starting_psn);
    table.number("Responder resources", m.responder_resources);
    table.number("Initiator depth", m.initiator_depth);
    table.timeout("Target ACK delay", m.target_ack_delay);
    table.number("Failover accepted", m.failover_accepted);
    table.flag("End-to-end flow control", m.end_to_end_flow_control);
    table.number("RNR retry count", m.rnr_retry_count);
    table.flag("SRQ", m.srq);
    table.word("Local CA GUID", m.local_ca_guid, 16);
    add_private_data(table, m.private_data);
}

void add(Table& table, const Rtu& m) {
    add_ids(table, m);
    add_private_data(table, m.private_data);
}

void add(Table& table, const Dreq& m) {
    add_ids(table, m);
    table.qpn("Remote QPN", m.remote_qpn);
    add_private_data(table, m.private_data);
}

void add(Table& table, const Drep& m) {
    add_ids(table, m);
    add_private_data(table, m.private_data);
}

void add(Table& table, const Lap& m) {
    add_ids(table, m);
    table.qpn("Remote QPN", m.remote_qpn);
    table.timeout("Remote CM response timeout", m.remote_cm_response_timeout);
    add_path(table, m.alternate);
    add_private_data(table, m.private_data);
}

void add(Table& table, const Apr& m) {
    add_ids(table, m);
    table.number("AP status", static_cast<unsigned>(m.ap_status));
    add_private_data(table, m.private_data);
}

void add(Table& table, const SidrReq& m) {
    std::span<const std::uint8_t> private_data = m.private_data;
    table.word("Request ID", m.request_id, 8);
    table.word("Partition key (P_Key)", m.pkey, 4);
    add_service(table, m.service_id, private_data);
    add_private_data(table, private_data);
}

void add(Table& table, const SidrRep& m) {
    std::span<const std::uint8_t> nothing;
    static constexpr const char* kStatuses[] = {
        "valid QPN",  "service ID not supported", "rejected by service provider", "no QP available",
        "redirected", "version not supported"};
    const auto status = static_cast<unsigned>(m.status);
    table.word("Request ID", m.request_id, 8);
    table.add("Status", "%u %s", status, status < std::size(kStatuses) ? kStatuses[status] : "reserved");
    table.qpn("QPN", m.qpn);
    add_service(table, m.service_id, nothing);
    table.word("Q_Key", m.qkey, 8);
    add_private_data(table, m.private_data);
}

template <class M>
void add_message(Table& table, std::span<const std::uint8_t, kMadLength> mad) {
    M message;
    decode(cm_message(mad), message);
    add(table, message);
}

void add_mad(Table& table, std::span<const std::uint8_t, kMadLength> mad) {
    MadHeader header;
    decode(mad_header(mad), header);
    table.header("MAD");
    table.number("Base version", header.base_version);
    table.word("Management class", header.management_class, 2);
    table.number("Class version", header.class_version);
    table.word("Method", header.method, 2);
    table.word("Status", header.status, 4);
    table.word("Transaction ID", header.transaction_id, 16);
    table.add("Attribute ID", "0x%04x %s", static_cast<unsigned>(header.attribute_id),
              is_cm(header) ? to_string(header.attribute_id) : "");
    table.word("Attribute modifier", header.attribute_modifier, 8);
    if (!is_cm(header)) return;
    static constexpr struct {
        CmAttribute attribute;
        void (*add)(Table&, std::span<const std::uint8_t, kMadLength>);
    } kMessages[] = {
        {CmAttribute::req, add_message<Req>},          {CmAttribute::mra, add_message<Mra>},
        {CmAttribute::rej, add_message<Rej>},          {CmAttribute::rep, add_message<Rep>},
        {CmAttribute::rtu, add_message<Rtu>},          {CmAttribute::dreq, add_message<Dreq>},
        {CmAttribute::drep, add_message<Drep>},        {CmAttribute::lap, add_message<Lap>},
        {CmAttribute::apr, add_message<Apr>},          {CmAttribute::sidr_req, add_message<SidrReq>},
        {CmAttribute::sidr_rep, add_message<SidrRep>},
    };
    for (const auto& message : kMessages)
        if (message.attribute == header.attribute_id) {
            table.header(to_string(header.attribute_id));
            message.add(table, mad);
        }
}

}  // namespace

std::vector<Field> fields(const Packet& packet) {
    const Headers& h = packet.headers;
    const OpcodeInfo& opcode = info(h.bth.opcode);
    std::vector<Field> all;
    Table table(all);
    add_bth(table, h.bth, opcode);
    add_extended(table, h, opcode);
    if (opcode.has_deth && h.bth.destination_qp == kQp1 && packet.payload.size() == kMadLength) {
        add_mad(table, packet.payload.first<kMadLength>());
    } else if (opcode.may_have_payload) {
        table.header("payload");
        table.add("Length", "%zu", packet.payload.size());
        if (!packet.payload.empty()) {
            table.text("Bytes", hex(packet.payload, kPayloadShown));
            table.text("As text", characters(packet.payload, kPayloadShown));
        }
    }
    return all;
}

std::vector<Field> fields(const Path& path, std::uint16_t destination_port) {
    std::vector<Field> all;
    Table table(all);
    table.header(path.is_ipv4() ? "IPv4" : "IPv6");
    table.text("Source", to_string(path.source));
    table.text("Destination", to_string(path.destination));
    table.header("UDP");
    table.number("Source port", path.udp_source_port);
    table.number("Destination port", destination_port);
    return all;
}

std::vector<Field> fields(std::span<const std::uint8_t, kMadLength> mad) {
    std::vector<Field> all;
    Table table(all);
    add_mad(table, mad);
    return all;
}

const std::string& value_of(const std::vector<Field>& fields, const char* header, const char* name) {
    static const std::string none;
    for (const Field& field : fields)
        if (std::strcmp(field.header, header) == 0 && std::strcmp(field.name, name) == 0) return field.value;
    return none;
}

std::string hex(std::span<const std::uint8_t> bytes, std::size_t limit) {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (std::uint8_t byte : bytes.first(std::min(limit, bytes.size()))) {
        if (!text.empty()) text += ' ';
        text += kDigits[byte >> 4];
        text += kDigits[byte & 15];
    }
    if (bytes.size() > limit) text += " ... (" + std::to_string(bytes.size()) + " bytes)";
    return text;
}

std::string characters(std::span<const std::uint8_t> bytes, std::size_t limit) {
    std::string text;
    for (std::uint8_t byte : bytes.first(std::min(limit, bytes.size())))
        text += byte >= 0x20 && byte < 0x7f ? static_cast<char>(byte) : '.';
    return text;
}

}  // namespace verbena::wire
