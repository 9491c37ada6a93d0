#include "daemon/qp1.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/features.h"
#include "base/reason.h"
#include "link/hooks.h"
#include "link/steering.h"
#include "link/unsent.h"
#include "wire/describe.h"
#include "wire/icrc.h"
#include "wire/packet.h"
#include "wire/psn.h"

namespace verbena::daemon {
namespace {

constexpr unsigned kAtOnce = 64;

void log_mad(const char* direction, const wire::Path& path,
             std::span<const std::uint8_t, wire::kMadLength> mad) {
    if (!log_enabled(LogLevel::debug)) return;
    log(LogLevel::debug, "QP1 %s %s -> %s: %s", direction, to_string(path.source).c_str(),
        to_string(path.destination).c_str(), wire::describe_mad(mad).c_str());
}

}  // namespace

int Qp1::open(int queue, link::UdpLink::Setup setup, std::uint32_t first_psn, IsOurs is_ours,
              Handler handler) {
    setup.gso = false;
    link_ = link::UdpLink::create(setup);
    if (!link_) return errno;
    int own = fcntl(queue, F_DUPFD_CLOEXEC, 0);
    if (own < 0) return fail(errno, "dup: %s", std::strerror(errno));
    if (int error = link_->add_queue(own, 0)) return error;
    psn_ = first_psn & wire::kPsnMask;
    is_ours_ = std::move(is_ours);
    handler_ = std::move(handler);
    return 0;
}

void Qp1::receive() {
    while (link_->receive(*this, kAtOnce) == kAtOnce) {
    }
}

void Qp1::datagram(const link::Datagram& datagram) {
    wire::Packet packet;
    const wire::ParseError error = wire::parse(datagram.bytes, packet);
    const wire::Bth& bth = packet.headers.bth;
    if (error == wire::ParseError::too_short && datagram.bytes.size() < wire::kBthLength) {
        counters_.ignored++;
        return;
    }
    if (link::block_of(bth.destination_qp) != 0 && bth.destination_qp != wire::kMulticastQp) {
        counters_.strays++;
        link_->stray(datagram, bth.destination_qp);
        return;
    }
    // IBA 10.2.5, 13.5.3: QP1 takes UD sends with the well-known Q_Key and a default partition key.
    if (error != wire::ParseError::none || bth.destination_qp != wire::kQp1 ||
        bth.opcode != wire::Opcode::ud_send_only || packet.headers.deth.qkey != wire::kQp1QKey ||
        !wire::pkey_matches(bth.pkey) || packet.payload.size() != wire::kMadLength) {
        counters_.ignored++;
        return;
    }
    std::uint32_t ip_id = 0;
    if (wire::icrc_verify(*datagram.path, datagram.destination_port, datagram.bytes, &ip_id) !=
        wire::IcrcCheck::good) {
        counters_.bad_icrc++;
        return;
    }
    if (link::PacketObserver* observer = link::packet_observer())
        observer->packet({false, datagram.path, datagram.destination_port, static_cast<std::uint16_t>(ip_id),
                          datagram.bytes});
    arrived(*datagram.path, packet.headers.deth.source_qp, packet.payload.first<wire::kMadLength>());
}

void Qp1::arrived(const wire::Path& path, std::uint32_t source_qp,
                  std::span<const std::uint8_t, wire::kMadLength> mad) {
    counters_.received++;
    log_mad("receives", path, mad);
    handler_(path, source_qp, mad);
}

void Qp1::deliver_own() {
    if (std::exchange(kernel_has_own_, false)) receive();
    while (!own_.empty()) {
        const OwnMad own = own_.front();
        own_.pop_front();  // before: where there is no memory for it it is as lost as any
        arrived(own.path, wire::kQp1, own.mad);
    }
}

void Qp1::send(const wire::Path& path, std::uint32_t destination_qp,
               std::span<const std::uint8_t, wire::kMadLength> mad, const faults::Mark& mark) {
    wire::Path from_qp1 = path;
    from_qp1.udp_source_port = wire::udp_source_port_for_ud(wire::kQp1);
    if (destination_qp == wire::kQp1 && features().local && is_ours_(from_qp1)) {
        if (!mark.note && !mark.damaged && !mark.lost && !link::packet_observer()) {
            OwnMad& own = own_.emplace_back();
            own.path = from_qp1;
            std::memcpy(own.mad.data(), mad.data(), mad.size());
            counters_.sent++;
            log_mad("sends", path, mad);
            return;
        }
        kernel_has_own_ = true;
    }
    wire::Headers headers;
    headers.bth.opcode = wire::Opcode::ud_send_only;
    headers.bth.pkey = wire::kDefaultPkey;
    headers.bth.destination_qp = destination_qp;
    headers.bth.ack_request = true;  // meaningless for UD; Linux sets it
    headers.bth.psn = psn_;
    headers.deth.qkey = wire::kQp1QKey;
    headers.deth.source_qp = wire::kQp1;
    psn_ = wire::psn_add(psn_, 1);

    wire::OutPacket packet;
    packet.path = &from_qp1;
    packet.header_length = static_cast<std::uint8_t>(wire::emit(headers, packet.header.data()));
    const iovec payload{const_cast<std::uint8_t*>(mad.data()), mad.size()};
    packet.payload = std::span(&payload, 1);
    packet.note = mark.note;
    packet.damaged = mark.damaged;
    packet.alone = mark.note != nullptr;
    if (mark.lost) {
        if (link::PacketObserver* observer = link::packet_observer()) link::show_unsent(*observer, packet);
        return;
    }
    link_->send(packet);
    link_->flush();
    counters_.sent++;
    log_mad("sends", path, mad);
}

}  // namespace verbena::daemon
