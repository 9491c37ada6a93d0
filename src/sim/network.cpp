#include "sim/network.h"

#include <algorithm>
#include <memory>

#include "wire/byte_order.h"
#include "wire/icrc.h"

namespace verbena::sim {
namespace {

constexpr Duration kLate =
    5 * kMillisecond;                 // more extra delay than this counts as a loss when timeouts are judged
constexpr unsigned kVariantByte = 4;  // of a BTH
constexpr unsigned kQpnOffset = 5;    // of the destination QPN in a BTH

std::uint32_t destination_qp(const std::vector<std::uint8_t>& bytes) {
    return bytes.size() < wire::kBthLength ? 0 : wire::load_be24(bytes.data() + kQpnOffset);
}

}  // namespace

const char* to_string(Loss loss) {
    switch (loss) {
        case Loss::dropped:
            return "dropped";
        case Loss::corrupted:
            return "corrupted";
        case Loss::undetectable:
            return "undetectable corruption";
        case Loss::queue_full:
            return "queue full";
        case Loss::overflow:
            return "receive buffer full";
        case Loss::partition:
            return "partition";
        case Loss::nobody:
            return "nobody there";
        case Loss::late:
            return "late";
    }
    return "?";
}

Network::Network(Scheduler& scheduler, std::uint64_t seed, Watcher& watcher)
    : scheduler_(scheduler), random_(seed), watcher_(watcher) {}

unsigned Network::add_host() { return hosts_++; }

Gid Network::gid(unsigned host, bool ipv6) const {
    if (!ipv6) return Gid::from_ipv4(0x0a000001 + host);
    Gid gid;
    gid.bytes[0] = 0xfd;
    gid.bytes[15] = static_cast<std::uint8_t>(host + 1);
    return gid;
}

void Network::attach(unsigned host, std::uint32_t first_qp, std::uint32_t qp_count, Inbox& inbox) {
    slots_.push_back({host, first_qp, qp_count, &inbox});
}

void Network::detach(Inbox& inbox) {
    std::erase_if(slots_, [&](const Slot& slot) { return slot.inbox == &inbox; });
    std::erase_if(members_, [&](const auto& member) { return member.second == &inbox; });
}

void Network::partition(unsigned a, unsigned b, Time begin, Time end) {
    ways_[{a, b}].partitions.emplace_back(begin, end);
    ways_[{b, a}].partitions.emplace_back(begin, end);
}

bool Network::partitioned(unsigned a, unsigned b, Time begin, Time end) const {
    auto way = ways_.find({a, b});
    if (way == ways_.end()) return false;
    return std::ranges::any_of(way->second.partitions,
                               [&](const auto& p) { return p.first < end && begin < p.second; });
}

void Network::send(Frame frame) {
    frame.destination_qp = destination_qp(frame.bytes);
    counts_.sent++;
    watcher_.sent(frame);
    const unsigned from = host_of(frame.path.source);
    if (!frame.path.destination.is_multicast()) {
        const unsigned to = host_of(frame.path.destination);
        return travel(from, to, std::move(frame));
    }
    // A copy for each host; its members share what becomes of that.
    for (unsigned to = 0; to < hosts_; to++)
        if (std::ranges::any_of(slots_, [&](const Slot& slot) {
                return slot.host == to && is_member(*slot.inbox, frame.path.destination);
            }))
            travel(from, to, frame);
}

bool Network::is_member(const Inbox& inbox, const Gid& group) const {
    return std::ranges::any_of(
        members_, [&](const auto& member) { return member.first == group && member.second == &inbox; });
}

void Network::travel(unsigned from, unsigned to, Frame frame) {
    if (to >= hosts_) return watcher_.lost(frame, Loss::nobody);
    Way& way = ways_[{from, to}];
    const Faults& faults = way.faults;
    if (partitioned(from, to, scheduler_.now(), scheduler_.now() + 1))
        return watcher_.lost(frame, Loss::partition);
    if (script) {
        const Fate fate = script(frame);
        if (fate.copies == 0) watcher_.lost(frame, Loss::dropped);
        for (unsigned i = 0; i < fate.copies; i++) carry(to, way, frame, 0);
        if (fate.late) carry(to, way, frame, fate.late);
        return;
    }
    if (random_.chance(faults.drop)) return watcher_.lost(frame, Loss::dropped);
    auto extra = [&] { return random_.between(0, std::max<Duration>(faults.reorder_delay, 1)); };
    if (random_.chance(faults.duplicate)) carry(to, way, frame, extra());
    const Duration held_back = random_.chance(faults.reorder) ? extra() : 0;
    if (held_back > kLate) watcher_.lost(frame, Loss::late);
    if (random_.chance(faults.corrupt) && !corrupt(frame)) return;
    carry(to, way, std::move(frame), held_back);
}

// False: no receiver could tell, and the datagram is lost instead.
bool Network::corrupt(Frame& frame) {
    const std::vector<std::uint8_t> before = frame.bytes;
    const std::uint32_t kind = static_cast<std::uint32_t>(random_.below(4));
    if (kind == 0) {  // a burst error
        const std::size_t at = random_.below(frame.bytes.size());
        for (std::size_t i = at; i < std::min(at + 8, frame.bytes.size()); i++)
            frame.bytes[i] ^= static_cast<std::uint8_t>(random_.next());
    }
    for (std::uint32_t i = 0; i < std::max(kind, 1u); i++)
        frame.bytes[random_.below(frame.bytes.size())] ^= static_cast<std::uint8_t>(1u << random_.below(8));
    // FECN, BECN and the reserved bits beside them change on the way: no ICRC covers them, and nobody looks
    // at them.
    frame.bytes[kVariantByte] = before[kVariantByte];
    if (frame.bytes == before) return true;
    counts_.corrupted++;
    watcher_.lost(frame, Loss::corrupted);
    frame.corrupted = true;
    if (!frame.path.is_ipv4()) return true;
    // Undetectable: some identification makes the ICRC right. The receiver's solution of it is checked
    // forwards.
    std::uint32_t id = 0;
    if (wire::icrc_verify(frame.path, wire::kUdpPort, frame.bytes, &id) == wire::IcrcCheck::bad) return true;
    const std::uint32_t icrc = wire::load_le32(frame.bytes.data() + frame.bytes.size() - wire::kIcrcLength);
    if (wire::icrc_compute(frame.path, wire::kUdpPort, frame.bytes, static_cast<std::uint16_t>(id), true) !=
        icrc)
        return true;  // a wrong answer of icrc_verify: deliver, so that it shows
    counts_.undetectable++;
    watcher_.lost(frame, Loss::undetectable);
    return false;
}

void Network::carry(unsigned to, Way& way, Frame frame, Duration extra) {
    const Faults& faults = way.faults;
    Time departure = scheduler_.now();
    if (faults.bytes_per_second != 0) {
        const Time start = std::max(departure, way.busy_until);
        if (start - departure > faults.queue_limit) return watcher_.lost(frame, Loss::queue_full);
        departure = start + static_cast<Duration>(frame.bytes.size() * kSecond / faults.bytes_per_second);
        way.busy_until = departure;
    }
    Time arrival = departure + faults.delay + (faults.jitter ? random_.between(0, faults.jitter) : 0);
    if (extra == 0) {
        arrival = std::max(arrival, way.last_arrival);
        way.last_arrival = arrival;
    }
    arrival += extra;
    auto held = std::make_shared<Frame>(std::move(frame));
    scheduler_.at(arrival, [this, to, held] { arrive(to, std::move(*held)); });
}

void Network::arrive(unsigned to, Frame frame) {
    if (frame.path.destination.is_multicast()) {
        for (const Slot& slot : slots_)
            if (slot.host == to && is_member(*slot.inbox, frame.path.destination)) put(*slot.inbox, frame);
        return;
    }
    if (Inbox* const inbox = find(to, destination_qp(frame.bytes))) return put(*inbox, std::move(frame));
    watcher_.lost(frame, Loss::nobody);
}

Inbox* Network::find(unsigned host, std::uint32_t qp) const {
    for (const Slot& slot : slots_)
        if (slot.host == host && qp - slot.first_qp < slot.qp_count) return slot.inbox;
    return nullptr;
}

void Network::put(Inbox& inbox, Frame frame) {
    const std::size_t cost = Inbox::cost(frame.bytes.size());
    if (inbox.used + cost > inbox.capacity) return watcher_.lost(frame, Loss::overflow);
    inbox.used += cost;
    inbox.frames.push_back(std::move(frame));
    inbox.arrived();
}

bool Network::take(Inbox& inbox, Frame& frame) {
    if (inbox.frames.empty()) return false;
    frame = std::move(inbox.frames.front());
    inbox.frames.pop_front();
    inbox.used -= Inbox::cost(frame.bytes.size());
    watcher_.delivered(frame);
    return true;
}

}  // namespace verbena::sim
