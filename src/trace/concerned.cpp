#include "trace/concerned.h"

#include <cstdlib>

#include "link/capture_reader.h"
#include "wire/packet.h"

namespace verbena::trace {

void Concerned::note(const Json& event) {
    if (event.value("k", "") != "qp") return;
    queue_pairs_.insert(event.value("qp", std::uint32_t{0}));
    if (event.contains("attr") && event["attr"].contains("dest_qp_num"))
        queue_pairs_.insert(static_cast<std::uint32_t>(
            std::strtoul(event["attr"].value("dest_qp_num", "0").c_str(), nullptr, 16)));
}

bool Concerned::concerns(const Json& event, bool data) const {
    constexpr std::uint32_t kGsi = 1, kMulticast = 0xffffff;
    link::CapturedPacket captured;
    wire::Packet packet;
    if (!link::read_ip_packet(from_base64(event.value("frame", "")), captured)) return false;
    if (wire::parse(captured.bytes, packet) != wire::ParseError::none) return data;
    const wire::Headers& headers = packet.headers;
    const std::uint32_t to = headers.bth.destination_qp;
    if (to == kGsi) return true;
    if (!data) return false;
    if (to == kMulticast || queue_pairs_.count(to)) return true;
    return wire::info(headers.bth.opcode).has_deth && queue_pairs_.count(headers.deth.source_qp);
}

}  // namespace verbena::trace
