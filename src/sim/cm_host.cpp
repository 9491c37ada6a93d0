#include "sim/cm_host.h"

#include <netinet/in.h>

#include <cerrno>

#include "cm/messages.h"
#include "wire/icrc.h"
#include "wire/packet.h"

namespace verbena::sim {
namespace {

constexpr std::uint32_t kDaemonBlock = 4096;  // QP numbers below belong to the daemon
constexpr std::uint32_t kFirstQp = 0x5000, kFewestQps = 4;
// The local ACK timeout that Linux's rdma_cm uses for RoCE (life time 18, ACK delay 15); timewait lasts as
// long.
constexpr Duration kTimewait = iba_timeout(19);

}  // namespace

CmHost::CmHost(World& world, unsigned number, std::uint64_t seed)
    : world_(world),
      number_(number),
      random_(seed),
      qps_(kFewestQps + random_.below(20)),
      link_(world.network, *this, true) {
    manager_ = std::make_unique<cm::Manager>(*this);
    world_.network.attach(number, 0, kDaemonBlock, *this);
}

CmHost::~CmHost() { world_.network.detach(*this); }

cm::Endpoint CmHost::address(bool ipv6, std::uint16_t port) const {
    cm::Endpoint endpoint;
    endpoint.family = ipv6 ? AF_INET6 : AF_INET;
    endpoint.address = world_.network.gid(number_, ipv6);
    endpoint.port = port;
    return endpoint;
}

void CmHost::close(cm::FileNumber file) {
    manager_->close_file(file, world_.now());
    files_.erase(file);
    called();
}

void CmHost::die() {
    dead_ = true;
    world_.network.detach(*this);
    frames.clear();
    files_.clear();
}

void CmHost::arrived() { wake(world_.now() + random_.between(0, 50 * kMicrosecond)); }

void CmHost::wake(Time at) {
    if (at == kNever || dead_) return;
    at = std::max(at, world_.now());
    if (turn_at_ <= at) return;
    turn_at_ = at;
    world_.scheduler.at(at, [this, at] {
        if (turn_at_ != at) return;
        turn_at_ = kNever;
        if (!dead_) turn();
    });
}

void CmHost::called() { wake(manager_->next_deadline()); }

void CmHost::turn() {
    while (link_.receive(*this, 64) > 0) {
    }
    manager_->advance(world_.now());
    link_.flush();
    const Time next = manager_->next_deadline();
    if (next <= world_.now())
        world_.verdict.violation(world_.now(), "host %u: the manager's deadline stays in the past", number_);
    else
        called();
}

void CmHost::datagram(const link::Datagram& datagram) {
    wire::Packet packet;
    if (wire::icrc_verify(*datagram.path, datagram.destination_port, datagram.bytes) != wire::IcrcCheck::good)
        return;
    if (wire::parse(datagram.bytes, packet) != wire::ParseError::none) return;
    const wire::Headers& h = packet.headers;
    if (h.bth.opcode != wire::Opcode::ud_send_only || h.bth.destination_qp != wire::kQp1 ||
        h.deth.qkey != wire::kQp1QKey || packet.payload.size() != wire::kMadLength)
        return world_.verdict.violation(world_.now(), "a packet for QP1 that is no MAD");
    manager_->receive_mad(*datagram.path, h.deth.source_qp, packet.payload.first<wire::kMadLength>(),
                          world_.now());
}

void CmHost::send_mad(const wire::Path& path, std::uint32_t destination_qp,
                      std::span<const std::uint8_t, 256> mad) {
    wire::Headers headers;
    headers.bth.opcode = wire::Opcode::ud_send_only;
    headers.bth.destination_qp = destination_qp;
    headers.bth.ack_request = true;
    headers.bth.psn = psn_++ & 0xffffff;
    headers.deth = {wire::kQp1QKey, wire::kQp1};
    wire::OutPacket out;
    out.path = &path;
    out.header_length = static_cast<std::uint8_t>(wire::emit(headers, out.header.data()));
    const iovec payload{const_cast<std::uint8_t*>(mad.data()), mad.size()};
    out.payload = {&payload, 1};
    link_.send(out);
    link_.flush();
}

void CmHost::deliver(cm::FileNumber file, const cm::Event& event) {
    world_.coverage.cm_events[static_cast<std::size_t>(event.type)]++;
    if (const auto sink = files_.find(file); sink != files_.end())
        sink->second->event(event);
    else
        world_.verdict.violation(world_.now(), "host %u: an event for file %u, which is closed", number_,
                                 file);
}

int CmHost::find_local(const cm::Endpoint& local, cm::Route& route) {
    const bool ipv6 = !local.address.is_ipv4();
    if (local.address != world_.network.gid(number_, ipv6)) return EADDRNOTAVAIL;
    route = {};
    route.source_gid = local.address;
    route.device = 0;
    route.interface_index = 2;
    route.path_mtu = 3;
    return 0;
}

int CmHost::find_route(const cm::Endpoint& source, const cm::Endpoint& remote, cm::Route& route,
                       Gid& source_address) {
    cm::Endpoint local = source;
    if (local.is_any()) local.address = world_.network.gid(number_, !remote.address.is_ipv4());
    if (int error = find_local(local, route)) return error;
    route.destination_gid = remote.address;
    source_address = local.address;
    return 0;
}

// Answers after a while, with an error now and then; never for a host that is not there.
int CmHost::resolve_neighbor(const cm::Route& route, std::uint64_t token) {
    if (Network::host_of(route.destination_gid) >= world_.network.hosts()) return 0;
    const int error = random_.one_in(50) ? EHOSTUNREACH : 0;
    world_.scheduler.after(random_.between(0, 2 * kMillisecond), [this, token, error] {
        if (dead_) return;
        manager_->neighbor_resolved(token, error, world_.now());
        called();
    });
    return 0;
}

std::uint32_t CmHost::take_qp() {
    // All of them may be busy for a while; programs then take longer to create one.
    for (int attempt = 0; attempt < 20; attempt++) {
        const auto qp = kFirstQp + number_ * 0x1000 + static_cast<std::uint32_t>(random_.below(qps_));
        if (in_use_.contains(qp)) continue;
        const auto until = quarantine_.find(qp);
        if (until != quarantine_.end() && world_.now() < until->second) continue;
        // IBA 12.9.8.3: not before packets of the old connection have died out.
        if (const auto end = ended_.find(qp); end != ended_.end() && world_.now() < end->second + kTimewait)
            world_.verdict.violation(
                world_.now(), "host %u: QP 0x%06x may be used again %lld ms after its connection ended",
                number_, qp, static_cast<long long>((world_.now() - end->second) / kMillisecond));
        in_use_.insert(qp);
        return qp;
    }
    return 0;
}

void CmHost::give_back_qp(std::uint32_t qp, Time ended) {
    in_use_.erase(qp);
    if (ended != kNever)
        ended_[qp] = ended;
    else
        ended_.erase(qp);
}

}  // namespace verbena::sim
