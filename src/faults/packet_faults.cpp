#include "faults/packet_faults.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "link/unsent.h"
#include "wire/byte_order.h"

namespace verbena::faults {
namespace {

// A packet that shall come behind the next one waits for it this long.
constexpr Duration kLongestReorder = 10 * kMillisecond;

std::uint32_t psn_of(const wire::OutPacket& packet) { return wire::load_be24(packet.header.data() + 9); }
std::uint32_t destination_of(const wire::OutPacket& packet) {
    return wire::load_be24(packet.header.data() + 5);
}

std::uint8_t syndrome_of(const Rule& rule) {
    return rule.action == Action::rnr ? wire::rnr_nak(static_cast<std::uint8_t>(rule.code))
                                      : wire::nak(static_cast<wire::NakCode>(rule.code));
}

bool within(std::uint32_t psn, const Rule& rule) {
    return rule.first_psn <= rule.last_psn ? psn >= rule.first_psn && psn <= rule.last_psn
                                           : psn >= rule.first_psn || psn <= rule.last_psn;
}

wire::OutPacket marked(const wire::OutPacket& packet, const char* note) {
    wire::OutPacket copy = packet;
    copy.alone = true;
    copy.note = note;
    return copy;
}

void show_lost(const wire::OutPacket& packet, const char* note) {
    if (link::PacketObserver* observer = link::packet_observer())
        link::show_unsent(*observer, marked(packet, note));
}

}  // namespace

// The way of one queue pair's packets, for one round of sending.
class PlannedPackets::Sink final : public wire::PacketSink {
   public:
    Sink(PlannedPackets& faults, wire::PacketSink& way, std::uint32_t qp, Time now)
        : faults_(faults), way_(way), qp_(qp), now_(now) {
        release(false);
    }

    void send(const wire::OutPacket& packet) override {
        if (faults_.is_down()) return;
        const Passing passing{Direction::out, qp_, destination_of(packet), psn_of(packet), packet.header[0]};
        const unsigned index = faults_.decide(passing);
        if (index == kNone) {
            way_.send(packet);
            return release(true);
        }
        const Rule& rule = faults_.setup_.board->rule(index);
        const char* note = faults_.setup_.board->text(index);
        switch (rule.action) {
            case Action::duplicate:
                way_.send(packet);
                way_.send(marked(packet, note));
                return release(true);
            case Action::corrupt: {
                wire::OutPacket damaged = marked(packet, note);
                damaged.damaged = true;
                way_.send(damaged);
                return release(true);
            }
            case Action::delay:
                return faults_.hold(packet, qp_, now_ + rule.time, false, note);
            case Action::reorder:
                return faults_.hold(packet, qp_, now_ + kLongestReorder, true, note);
            case Action::nak:
            case Action::rnr:
                return faults_.refuse(packet, qp_, syndrome_of(rule), now_, note);
            case Action::kill:
                return faults_.setup_.kill(rule.code);
            case Action::link_down:
            case Action::device_fatal:
                return faults_.setup_.port(rule);
            default:
                return show_lost(packet, note);
        }
    }

    void flush() override {
        way_.flush();
        leaving_.clear();
    }

    // Only packets that are packets can be dropped one by one.
    std::size_t largest_payload(const wire::Path&, std::uint32_t, bool) override { return 0; }
    bool is_full(const wire::Path& path, std::uint32_t destination_qp) override {
        return way_.is_full(path, destination_qp);
    }

   private:
    void release(bool behind_next) {
        if (!faults_.holds_.load(std::memory_order_relaxed)) return;
        std::list<Held> held = faults_.take(qp_, now_, behind_next);
        if (held.empty()) return;  // its begin would be the end of another list
        const auto first = held.begin();
        leaving_.splice(leaving_.end(), held);
        for (auto each = first; each != leaving_.end(); ++each)
            if (!faults_.is_down()) way_.send(each->packet);
    }

    PlannedPackets& faults_;
    wire::PacketSink& way_;
    const std::uint32_t qp_;
    const Time now_;
    std::list<Held> leaving_;  // until the flush
};

unsigned PlannedPackets::decide(const Passing& passing) {
    Board& board = *setup_.board;
    const unsigned count = board.count();
    for (unsigned index = 0; index < count; index++) {
        if (!board.active(index)) continue;
        const Rule& rule = board.rule(index);
        if ((rule.subject != Subject::packet && rule.subject != Subject::port) || rule.at_once ||
            rule.direction != passing.direction || !rule.takes_opcode(passing.opcode) ||
            (rule.has_qp && rule.qp != passing.qp) ||
            (rule.has_destination_qp && rule.destination_qp != passing.destination_qp) ||
            (rule.has_psn && !within(passing.psn, rule)) || !rule.is_of_program(setup_.program))
            continue;
        if (board.meets(index)) return index;
    }
    return kNone;
}

void PlannedPackets::hold(const wire::OutPacket& packet, std::uint32_t qp, Time due, bool behind_next,
                          const char* note) {
    std::lock_guard guard(lock_);
    Held& held = held_.emplace_back();
    held.qp = qp;
    held.due = due;
    held.behind_next = behind_next;
    held.path = *packet.path;
    for (const iovec& piece : packet.payload) {
        const auto* bytes = static_cast<const std::uint8_t*>(piece.iov_base);
        held.payload.insert(held.payload.end(), bytes, bytes + piece.iov_len);
    }
    held.packet = marked(packet, note);
    held.packet.path = &held.path;
    held.piece = {held.payload.data(), held.payload.size()};
    held.packet.payload = std::span<const iovec>(&held.piece, held.payload.empty() ? 0 : 1);
    holds_.store(true, std::memory_order_relaxed);
}

std::list<PlannedPackets::Held> PlannedPackets::take(std::uint32_t qp, Time now, bool behind_next) {
    std::lock_guard guard(lock_);
    std::list<Held> taken;
    for (auto each = held_.begin(); each != held_.end();) {
        const auto next = std::next(each);
        if (each->qp == qp && (each->due <= now || (behind_next && each->behind_next)))
            taken.splice(taken.end(), held_, each);
        each = next;
    }
    return taken;
}

// The request never arrives, and an answer that nobody gave comes back (IBA 9.7.5.2).
void PlannedPackets::refuse(const wire::OutPacket& packet, std::uint32_t qp, std::uint8_t syndrome, Time now,
                            const char* note) {
    show_lost(packet, note);
    const wire::Service service = wire::info(static_cast<wire::Opcode>(packet.header[0])).service;
    auto arrival = std::make_unique<HeldArrival>();
    arrival->qp = qp;
    arrival->due = now;
    arrival->path = *packet.path;
    std::swap(arrival->path.source, arrival->path.destination);
    wire::Headers& headers = arrival->packet.headers;
    headers.bth.opcode = wire::with_service(wire::Opcode::rc_ack, service);
    headers.bth.destination_qp = qp;
    headers.bth.psn = psn_of(packet);
    headers.aeth.syndrome = syndrome;
    if (link::PacketObserver* observer = link::packet_observer())
        link::show_arrival(*observer, arrival->packet, arrival->path, note);
    std::lock_guard guard(lock_);
    arrivals_.push_back(std::move(arrival));
    holds_.store(true, std::memory_order_relaxed);
}

void PlannedPackets::hold_arrival(std::uint32_t qp, const wire::Packet& packet, const wire::Path& path,
                                  Time due, bool behind_next) {
    auto arrival = std::make_unique<HeldArrival>();
    arrival->qp = qp;
    arrival->due = due;
    arrival->behind_next = behind_next;
    arrival->path = path;
    arrival->payload.assign(packet.payload.begin(), packet.payload.end());
    arrival->packet = packet;
    arrival->packet.payload = arrival->payload;
    std::lock_guard guard(lock_);
    arrivals_.push_back(std::move(arrival));
    holds_.store(true, std::memory_order_relaxed);
}

link::PacketFaults::Arrival PlannedPackets::arrives(std::uint32_t qp, const wire::Packet& packet,
                                                    const wire::Path& path, Time now) {
    if (is_down()) return Arrival::lost;
    const wire::Bth& bth = packet.headers.bth;
    const unsigned index =
        decide({Direction::in, qp, bth.destination_qp, bth.psn, static_cast<std::uint8_t>(bth.opcode)});
    if (index == kNone) {
        if (holds_.load(std::memory_order_relaxed)) {  // what shall come behind this one comes now
            std::lock_guard guard(lock_);
            for (const auto& arrival : arrivals_)
                if (arrival->qp == qp && arrival->behind_next) arrival->due = now;
        }
        return Arrival::passes;
    }
    const Rule& rule = setup_.board->rule(index);
    // It cannot be kept without its payload, which is fetched once: it shall come again with it.
    const bool keeps =
        rule.action == Action::duplicate || rule.action == Action::delay || rule.action == Action::reorder;
    if (keeps && packet.elsewhere) {
        packet.elsewhere->decline();
        return Arrival::lost;
    }
    switch (rule.action) {
        case Action::duplicate:
            return Arrival::twice;
        case Action::corrupt:
            return Arrival::damaged;
        case Action::delay:
            hold_arrival(qp, packet, path, now + rule.time, false);
            return Arrival::lost;
        case Action::reorder:
            hold_arrival(qp, packet, path, now + kLongestReorder, true);
            return Arrival::lost;
        case Action::kill:
            setup_.kill(rule.code);
            return Arrival::lost;
        case Action::link_down:
        case Action::device_fatal:
            setup_.port(rule);
            return Arrival::lost;
        default:
            return Arrival::lost;
    }
}

std::unique_ptr<PlannedPackets::Late> PlannedPackets::late(std::uint32_t qp, Time now) {
    if (!holds_.load(std::memory_order_relaxed)) return nullptr;
    std::lock_guard guard(lock_);
    const auto found = std::find_if(arrivals_.begin(), arrivals_.end(), [&](const auto& arrival) {
        return arrival->qp == qp && arrival->due <= now;
    });
    if (found == arrivals_.end()) return nullptr;
    std::unique_ptr<Late> arrival = std::move(*found);
    arrivals_.erase(found);
    return arrival;
}

Time PlannedPackets::next_deadline(std::uint32_t qp) {
    if (!holds_.load(std::memory_order_relaxed)) return kNever;
    std::lock_guard guard(lock_);
    Time next = kNever;
    for (const Held& held : held_)
        if (held.qp == qp) next = std::min(next, held.due);
    for (const auto& arrival : arrivals_)
        if (arrival->qp == qp) next = std::min(next, arrival->due);
    if (held_.empty() && arrivals_.empty()) holds_.store(false, std::memory_order_relaxed);
    return next;
}

std::unique_ptr<wire::PacketSink> PlannedPackets::before(wire::PacketSink& way, std::uint32_t qp, Time now) {
    return std::make_unique<Sink>(*this, way, qp, now);
}

}  // namespace verbena::faults
