#include "tool/handshake.h"

#include <cstdarg>
#include <cstdio>
#include <optional>
#include <span>

#include "link/capture_reader.h"
#include "wire/cm_messages.h"
#include "wire/packet.h"

namespace verbena::tool {
namespace {

using link::CapturedPacket;

constexpr int kArrowWidth = 34;

enum class Side { client, server };

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
    Side from = Side::client;
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
    Flow client, server;
    std::uint64_t nanoseconds = 0;
    bool empty() const { return client.packets + server.packets == 0; }
};

struct End {
    Gid address;
    std::uint16_t port = 0;
    std::uint32_t comm_id = 0;
    std::uint32_t qpn = 0;
};

struct Connection {
    End client, server;
    bool datagram = false;  // SIDR
    std::vector<Row> rows;
    Traffic traffic;

    void flush_traffic() {
        if (traffic.empty()) return;
        if (traffic.client.packets)
            rows.push_back({traffic.nanoseconds, Side::client, format("%u packets", traffic.client.packets),
                            traffic.client.detail()});
        if (traffic.server.packets)
            rows.push_back({traffic.nanoseconds, Side::server, format("%u packets", traffic.server.packets),
                            traffic.server.detail()});
        traffic = {};
    }
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

class Ladder {
   public:
    void take(const CapturedPacket& captured) {
        wire::Packet packet;
        if (wire::parse(captured.bytes, packet) != wire::ParseError::none) return;
        if (packet.headers.bth.destination_qp == wire::kQp1 && packet.payload.size() == wire::kMadLength)
            take_mad(captured, packet.payload.first<wire::kMadLength>());
        else
            take_data(captured, packet);
    }

    bool draw() {
        for (std::size_t i = 0; i < connections_.size(); i++) draw_connection(connections_[i], i + 1);
        return !connections_.empty();
    }

   private:
    void take_mad(const CapturedPacket& captured, std::span<const std::uint8_t, wire::kMadLength> mad) {
        wire::MadHeader header;
        wire::decode(wire::mad_header(mad), header);
        if (!wire::is_cm(header)) return;
        auto message = wire::cm_message(mad);
        switch (header.attribute_id) {
            case wire::CmAttribute::req:
                return request(captured, read<wire::Req>(message));
            case wire::CmAttribute::rep:
                return reply(captured, read<wire::Rep>(message));
            case wire::CmAttribute::rtu:
                return simple(captured, read<wire::Rtu>(message), "RTU");
            case wire::CmAttribute::dreq: {
                auto dreq = read<wire::Dreq>(message);
                return simple(captured, dreq, "DREQ", format("remote QPN 0x%06x", dreq.remote_qpn));
            }
            case wire::CmAttribute::drep:
                return simple(captured, read<wire::Drep>(message), "DREP");
            case wire::CmAttribute::mra: {
                auto mra = read<wire::Mra>(message);
                return simple(captured, mra, "MRA", format("service timeout %u", mra.service_timeout));
            }
            case wire::CmAttribute::rej: {
                auto rej = read<wire::Rej>(message);
                return simple(captured, rej, "REJ", format("reason %u", static_cast<unsigned>(rej.reason)));
            }
            default:
                return;
        }
    }

    template <class Message>
    static Message read(wire::CmConstBytes bytes) {
        Message message;
        wire::decode(bytes, message);
        return message;
    }

    void request(const CapturedPacket& captured, const wire::Req& req) {
        Connection* connection = find(req.local_comm_id, 0, captured);
        bool again = connection != nullptr;
        if (!again) {
            connection = &connections_.emplace_back();
            connection->client = {captured.path.source, 0, req.local_comm_id, req.local_qpn};
            connection->server = {captured.path.destination, wire::service_port(req.service_id), 0, 0};
            wire::CmaHeader addresses;
            if (wire::is_ip_service(req.service_id) &&
                wire::decode(std::span(req.private_data).first<wire::kCmaHeaderLength>(), addresses)) {
                connection->client.port = addresses.port;
                connection->client.address = addresses.source_gid();
                connection->server.address = addresses.destination_gid();
            }
        }
        connection->flush_traffic();
        connection->rows.push_back(
            {captured.nanoseconds, Side::client, again ? "REQ again" : "REQ",
             format("comm id 0x%08x  QPN 0x%06x  PSN %u  %s port %u  MTU %u", req.local_comm_id,
                    req.local_qpn, req.starting_psn, port_space(req.service_id),
                    wire::service_port(req.service_id), 128u << req.path_mtu)});
    }

    void reply(const CapturedPacket& captured, const wire::Rep& rep) {
        Connection* connection = find(rep.remote_comm_id, rep.local_comm_id, captured);
        if (!connection) return;
        bool again = connection->server.comm_id != 0;
        connection->server.comm_id = rep.local_comm_id;
        connection->server.qpn = rep.local_qpn;
        connection->flush_traffic();
        connection->rows.push_back({captured.nanoseconds, Side::server, again ? "REP again" : "REP",
                                    format("comm id 0x%08x  QPN 0x%06x  PSN %u", rep.local_comm_id,
                                           rep.local_qpn, rep.starting_psn)});
    }

    template <class Message>
    void simple(const CapturedPacket& captured, const Message& message, const char* label,
                const std::string& detail = {}) {
        Connection* connection = find(message.local_comm_id, message.remote_comm_id, captured);
        if (!connection) return;
        Side from =
            connection->client.comm_id == message.local_comm_id ||
                    (message.local_comm_id == 0 && connection->server.comm_id == message.remote_comm_id)
                ? Side::client
                : Side::server;
        connection->flush_traffic();
        connection->rows.push_back(
            {captured.nanoseconds, from, label,
             format("comm ids 0x%08x, 0x%08x%s%s", message.local_comm_id, message.remote_comm_id,
                    detail.empty() ? "" : "  ", detail.c_str())});
    }

    void take_data(const CapturedPacket& captured, const wire::Packet& packet) {
        const wire::Bth& bth = packet.headers.bth;
        for (auto connection = connections_.rbegin(); connection != connections_.rend(); ++connection) {
            bool to_server = bth.destination_qp == connection->server.qpn &&
                             captured.path.source == connection->client.address;
            bool to_client = bth.destination_qp == connection->client.qpn &&
                             captured.path.source == connection->server.address;
            if (!connection->server.qpn || !(to_server || to_client)) continue;
            Traffic& traffic = connection->traffic;
            if (traffic.empty()) traffic.nanoseconds = captured.nanoseconds;
            Traffic::Flow& flow = to_server ? traffic.client : traffic.server;
            flow.packets++;
            if (!flow.first_psn && wire::info(bth.opcode).request) flow.first_psn = bth.psn;
            return;
        }
    }

    // The newest connection with one of the comm ids in its place; 0 is no comm id.
    Connection* find(std::uint32_t one, std::uint32_t other, const CapturedPacket& captured) {
        for (auto connection = connections_.rbegin(); connection != connections_.rend(); ++connection) {
            const End &client = connection->client, &server = connection->server;
            bool ends_match =
                (captured.path.source == client.address && captured.path.destination == server.address) ||
                (captured.path.source == server.address && captured.path.destination == client.address);
            auto is = [&](std::uint32_t id) { return id && (id == client.comm_id || id == server.comm_id); };
            if (ends_match && (is(one) || is(other))) return &*connection;
        }
        return nullptr;
    }

    static void draw_connection(Connection& connection, std::size_t number) {
        connection.flush_traffic();
        std::printf("Connection %zu: %s port %u -> %s port %u\n\n", number,
                    to_string(connection.client.address).c_str(), connection.client.port,
                    to_string(connection.server.address).c_str(), connection.server.port);
        std::printf("%12s client%*sserver\n", "ms", kArrowWidth - 10, "");
        std::uint64_t start = connection.rows.front().nanoseconds;
        for (const Row& row : connection.rows) {
            int dashes = kArrowWidth - static_cast<int>(row.label.size()) - 5;
            std::string line(static_cast<std::size_t>(dashes > 2 ? dashes : 2), '-');
            std::string left = line.substr(0, line.size() / 2), right = line.substr(line.size() / 2);
            bool forward = row.from == Side::client;
            std::printf("%12.3f |%s%s %s %s%s| %s\n", static_cast<double>(row.nanoseconds - start) / 1e6,
                        forward ? "" : "<", left.c_str(), row.label.c_str(), right.c_str(),
                        forward ? ">" : "", row.detail.c_str());
        }
        std::printf("\n");
    }

    std::vector<Connection> connections_;
};

}  // namespace

int draw_handshake(const std::vector<std::string>& files) {
    std::vector<CapturedPacket> packets;
    std::string error;
    if (!link::read_captures(files, packets, error)) {
        std::fprintf(stderr, "verbena: %s\n", error.c_str());
        return 1;
    }
    Ladder ladder;
    for (const CapturedPacket& packet : packets) ladder.take(packet);
    if (!ladder.draw()) {
        std::fprintf(stderr, "verbena: no CM handshake among %zu packets\n", packets.size());
        return 1;
    }
    return 0;
}

}  // namespace verbena::tool
