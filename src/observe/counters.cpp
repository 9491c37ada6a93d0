#include "observe/counters.h"

namespace verbena::observe {
namespace {

using adapter::PortTotals;

// Of a packet that memory stood for: BTH and ICRC.
constexpr std::uint64_t kPerPacket = 16;

std::uint64_t nothing(const PortTotals&) { return 0; }

std::uint64_t packets_sent(const PortTotals& t) {
    return t.own.packets_sent + t.own.direct_packets_out + t.mirrored_packets_out;
}
std::uint64_t packets_received(const PortTotals& t) {
    return t.own.packets_received + t.own.direct_packets_in + t.mirrored_packets_in;
}
std::uint64_t words_sent(const PortTotals& t) {
    const std::uint64_t packets = t.own.direct_packets_out + t.mirrored_packets_out;
    return (t.own.wire_bytes_sent + t.own.direct_bytes_out + t.mirrored_bytes_out + packets * kPerPacket) / 4;
}
std::uint64_t words_received(const PortTotals& t) {
    const std::uint64_t packets = t.own.direct_packets_in + t.mirrored_packets_in;
    return (t.own.wire_bytes_received + t.own.direct_bytes_in + t.mirrored_bytes_in + packets * kPerPacket) /
           4;
}

constexpr Counter kPort[] = {
    {"VL15_dropped", nothing, "vl15_dropped_total", "Management packets dropped for lack of buffers"},
    {"excessive_buffer_overrun_errors", nothing, "excessive_buffer_overrun_errors_total",
     "Overruns of the port's buffers"},
    {"link_downed", [](const PortTotals& t) { return t.link_downed; }, "link_downed_total",
     "Times that the port went down"},
    {"link_error_recovery", nothing, "link_error_recovery_total", "Times that the link recovered by itself"},
    {"local_link_integrity_errors", nothing, "local_link_integrity_errors_total",
     "Local physical errors beyond the threshold"},
    {"multicast_rcv_packets", [](const PortTotals& t) { return t.own.multicast_received; },
     "multicast_packets_received_total", "Multicast packets received, a copy for each queue pair"},
    {"multicast_xmit_packets", [](const PortTotals& t) { return t.own.multicast_sent; },
     "multicast_packets_transmitted_total", "Multicast packets sent"},
    {"port_rcv_constraint_errors", nothing, "port_constraint_errors_received_total",
     "Packets received that a switch discarded"},
    {"port_rcv_data", words_received, "port_data_received_bytes_total",
     "Bytes received, from the BTH to the ICRC", 4},
    {"port_rcv_errors", [](const PortTotals& t) { return t.receive_errors; }, "port_errors_received_total",
     "Packets received with a bad ICRC or malformed"},
    {"port_rcv_packets", packets_received, "port_packets_received_total", "Packets received"},
    {"port_rcv_remote_physical_errors", nothing, "port_receive_remote_physical_errors_total",
     "Packets received that were marked bad"},
    {"port_rcv_switch_relay_errors", nothing, "port_receive_switch_relay_errors_total",
     "Packets received that a switch could not forward"},
    {"port_xmit_constraint_errors", nothing, "port_constraint_errors_transmitted_total",
     "Packets that a switch did not send"},
    {"port_xmit_data", words_sent, "port_data_transmitted_bytes_total",
     "Bytes sent, from the BTH to the ICRC", 4},
    {"port_xmit_discards", nothing, "port_discards_transmitted_total",
     "Packets discarded because the port was down or congested"},
    {"port_xmit_packets", packets_sent, "port_packets_transmitted_total", "Packets sent"},
    {"port_xmit_wait", nothing, "port_transmit_wait_total", "Ticks with data to send and no credits"},
    {"symbol_error", nothing, "symbol_error_total", "Minor errors of the link"},
    {"unicast_rcv_packets",
     [](const PortTotals& t) { return packets_received(t) - t.own.multicast_received; },
     "unicast_packets_received_total", "Unicast packets received"},
    {"unicast_xmit_packets", [](const PortTotals& t) { return packets_sent(t) - t.own.multicast_sent; },
     "unicast_packets_transmitted_total", "Unicast packets sent"},
};

constexpr Counter kHardware[] = {
    {"sent_pkts", packets_sent, nullptr, "Packets sent"},
    {"rcvd_pkts", packets_received, nullptr, "Packets received"},
    {"duplicate_request", [](const PortTotals& t) { return t.own.duplicates; },
     "duplicate_requests_packets_total", "Request packets that had been received before"},
    {"out_of_seq_request", [](const PortTotals& t) { return t.own.out_of_sequence; },
     "out_of_sequence_packets_received_total", "Request packets behind a gap"},
    {"rcvd_rnr_err", [](const PortTotals& t) { return t.own.rnr_naks_received; },
     "rnr_nak_retry_packets_received_total", "RNR NAKs received"},
    {"send_rnr_err", [](const PortTotals& t) { return t.own.rnr_naks_sent; }, nullptr, "RNR NAKs sent"},
    {"rcvd_seq_err", [](const PortTotals& t) { return t.own.sequence_naks_received; },
     "packet_sequence_errors_total", "NAKs for a sequence error received"},
    {"ack_deferred", nothing, nullptr, "Acknowledgements put off; here each is looked at as it comes"},
    {"retry_exceeded_err", [](const PortTotals& t) { return t.own.retries_exceeded; }, nullptr,
     "Requests given up for want of an answer"},
    {"retry_rnr_exceeded_err", [](const PortTotals& t) { return t.own.rnr_retries_exceeded; }, nullptr,
     "Requests given up because the peer posted no receive"},
    {"completer_retry_err",
     [](const PortTotals& t) { return t.own.timeouts + t.own.implied_naks + t.own.sequence_naks_received; },
     nullptr, "Times that a requester went back to repeat"},
    {"send_err", [](const PortTotals& t) { return t.own.send_errors; }, nullptr,
     "Send requests that failed, those flushed not among them"},
    {"link_downed", [](const PortTotals& t) { return t.link_downed; }, nullptr,
     "Times that the port went down"},
    {"rdma_sends", [](const PortTotals& t) { return t.own.messages_sent; }, nullptr,
     "SEND requests completed"},
    {"rdma_recvs", [](const PortTotals& t) { return t.own.messages_received; }, nullptr,
     "Receive requests completed with a message"},
};

}  // namespace

std::span<const Counter> port_counters() { return kPort; }
std::span<const Counter> hw_counters() { return kHardware; }

}  // namespace verbena::observe
