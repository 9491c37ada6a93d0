#include "tool/handshake.h"

#include <cstdarg>
#include <cstdio>
#include <optional>
#include <span>

#include "report/conversation.h"
#include "tool/read_files.h"
#include "wire/cm_messages.h"
#include "wire/packet.h"

namespace verbena::tool {
namespace {

constexpr int kArrowWidth = 34;

std::string format(const char* text, ...) __attribute__((format(printf, 1, 2)));
std::string format(const char* text, ...) {
    char buffer[256];
    va_list arguments;
    va_start(arguments, text);
    std::vsnprintf(buffer, sizeof buffer, text, arguments);
    va_end(arguments);
    return buffer;
}

struct Row {
    std::uint64_t nanoseconds = 0;
    int side = report::kLeft;
    std::string label;
    std::string detail;
};

// Packets of data between two CM messages.
struct Traffic {
    struct Flow {
        unsigned packets = 0;
        std::optional<std::uint32_t> first_psn;  // of its requests; responses repeat the other side's

        std::string detail() const {
            return first_psn ? format("first PSN %u", *first_psn) : "acknowledgements";
        }
    };
    Flow flows[2];
    std::uint64_t nanoseconds = 0;
    bool empty() const { return flows[0].packets + flows[1].packets == 0; }
};

const char* port_space(std::uint64_t service) {
    switch (wire::service_port_space(service)) {
        case wire::kPortSpaceTcp:
            return "TCP";
        case wire::kPortSpaceUdp:
            return "UDP";
        case wire::kPortSpaceIpoib:
            return "IPOIB";
        case wire::kPortSpaceIb:
            return "IB";
        default:
            return "other";
    }
}

std::string ids(std::uint32_t local, std::uint32_t remote) {
    return format("comm ids 0x%08x, 0x%08x", local, remote);
}

template <class Message>
Message read(const wire::Packet& packet) {
    Message message;
    wire::decode(wire::cm_message(packet.payload.first<wire::kMadLength>()), message);
    return message;
}

// What tells messages of one kind apart.
std::string detail_of(wire::CmAttribute attribute, const wire::Packet& packet) {
    switch (attribute) {
        case wire::CmAttribute::req: {
            const auto req = read<wire::Req>(packet);
            return format("comm id 0x%08x  QPN 0x%06x  PSN %u  %s port %u  MTU %u", req.local_comm_id,
                          req.local_qpn, req.starting_psn, port_space(req.service_id),
                          wire::service_port(req.service_id), 128u << req.path_mtu);
        }
        case wire::CmAttribute::rep: {
            const auto rep = read<wire::Rep>(packet);
            return format("comm id 0x%08x  QPN 0x%06x  PSN %u", rep.local_comm_id, rep.local_qpn,
                          rep.starting_psn);
        }
        case wire::CmAttribute::rtu: {
            const auto rtu = read<wire::Rtu>(packet);
            return ids(rtu.local_comm_id, rtu.remote_comm_id);
        }
        case wire::CmAttribute::dreq: {
            const auto dreq = read<wire::Dreq>(packet);
            return ids(dreq.local_comm_id, dreq.remote_comm_id) +
                   format("  remote QPN 0x%06x", dreq.remote_qpn);
        }
        case wire::CmAttribute::drep: {
            const auto drep = read<wire::Drep>(packet);
            return ids(drep.local_comm_id, drep.remote_comm_id);
        }
        case wire::CmAttribute::mra: {
            const auto mra = read<wire::Mra>(packet);
            return ids(mra.local_comm_id, mra.remote_comm_id) +
                   format("  service timeout %u", mra.service_timeout);
        }
        case wire::CmAttribute::rej: {
            const auto rej = read<wire::Rej>(packet);
            return ids(rej.local_comm_id, rej.remote_comm_id) +
                   format("  reason %u", static_cast<unsigned>(rej.reason));
        }
        default:
            return {};
    }
}

class Rows {
   public:
    void take(const link::CapturedPacket& captured, const report::ViewedPacket& view) {
        if (view.cm) return take_message(captured, view);
        const wire::Bth& bth = view.parsed.headers.bth;
        if (traffic_.empty()) traffic_.nanoseconds = captured.nanoseconds;
        Traffic::Flow& flow = traffic_.flows[view.side];
        flow.packets++;
        if (!flow.first_psn && wire::info(bth.opcode).request) flow.first_psn = bth.psn;
    }

    void draw() {
        flush_traffic();
        const std::uint64_t start = rows_.front().nanoseconds;
        for (const Row& row : rows_) {
            int dashes = kArrowWidth - static_cast<int>(row.label.size()) - 5;
            std::string line(static_cast<std::size_t>(dashes > 2 ? dashes : 2), '-');
            std::string left = line.substr(0, line.size() / 2), right = line.substr(line.size() / 2);
            bool forward = row.side == report::kLeft;
            std::printf("%12.3f |%s%s %s %s%s| %s\n", static_cast<double>(row.nanoseconds - start) / 1e6,
                        forward ? "" : "<", left.c_str(), row.label.c_str(), right.c_str(),
                        forward ? ">" : "", row.detail.c_str());
        }
        std::printf("\n");
    }

   private:
    void take_message(const link::CapturedPacket& captured, const report::ViewedPacket& view) {
        flush_traffic();
        wire::MadHeader header;
        wire::decode(wire::mad_header(view.parsed.payload.first<wire::kMadLength>()), header);
        const std::string again = view.repeated ? " again" : "";
        rows_.push_back({captured.nanoseconds, view.side, wire::to_string(header.attribute_id) + again,
                         detail_of(header.attribute_id, view.parsed)});
    }

    void flush_traffic() {
        for (int side : {report::kLeft, report::kRight})
            if (const Traffic::Flow& flow = traffic_.flows[side]; flow.packets)
                rows_.push_back({traffic_.nanoseconds, side,
                                 format(flow.packets == 1 ? "%u packet" : "%u packets", flow.packets),
                                 flow.detail()});
        traffic_ = {};
    }

    std::vector<Row> rows_;
    Traffic traffic_;
};

}  // namespace

int draw_handshake(const std::vector<std::string>& files) {
    report::Recording recording;
    if (!read_files(files, recording)) return 1;
    std::vector<report::ViewedPacket> views;
    unsigned number = 0;
    for (const report::Conversation& conversation : report::find_conversations(recording, views)) {
        if (conversation.kind != report::Kind::connection) continue;
        const report::End &client = conversation.ends[report::kLeft],
                          &server = conversation.ends[report::kRight];
        std::printf("Connection %u: %s port %u -> %s port %u\n\n", ++number,
                    to_string(client.address).c_str(), client.port, to_string(server.address).c_str(),
                    server.port);
        std::printf("%12s client%*sserver\n", "ms", kArrowWidth - 10, "");
        Rows rows;
        for (const std::size_t index : conversation.packets)
            rows.take(recording.packets[index].captured, views[index]);
        rows.draw();
    }
    if (number) return 0;
    std::fprintf(stderr, "verbena: no CM handshake among %zu packets\n", recording.packets.size());
    return 1;
}

}  // namespace verbena::tool
