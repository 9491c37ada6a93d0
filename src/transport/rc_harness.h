// For tests: two queue pairs of a connected service joined by a scripted wire under a virtual clock. Packets
// travel as bytes; a filter sees each one and may drop, repeat or delay it.
#pragma once

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "transport/queue_pair.h"
#include "transport/rc_harness_parts.h"
#include "transport/rc_short.h"
#include "transport/vendor_error.h"
#include "wire/answer_place.h"
#include "wire/packet.h"
#include "wire/plain_ack.h"

namespace verbena::transport::testing {

inline constexpr Duration kOneWay = 10 * kMicrosecond;

class Harness : private QpListener {
   public:
    using Side = HarnessSide;

    static Attributes defaults() {
        Attributes a;
        a.path_mtu = 1024;
        a.access = memory::kRemoteRead | memory::kRemoteWrite | memory::kRemoteAtomic;
        a.max_rd_atomic = a.max_destination_rd_atomic = 4;
        a.min_rnr_timer = 12;
        a.timeout = 14;
        a.retry_count = 7;
        a.rnr_retry = 7;
        a.port = 1;
        return a;
    }

    Capabilities capabilities{64, 64, 4, 4, 256};
    Attributes attributes[2] = {defaults(), defaults()};
    std::uint32_t start_psn[2] = {0x111000, 0x222000};
    std::size_t memory_size = 1 << 20;
    memory::Access access =
        memory::kLocalWrite | memory::kRemoteRead | memory::kRemoteWrite | memory::kRemoteAtomic;
    bool signal_all = false;
    bool shared_receive_queue = false;
    Service service = Service::rc;  // xrc_send: see kXrcQueue
    FakeXrcQueues xrc_queues;
    FlowTable* flows = nullptr;      // where side 0's window is; nullptr: each has one of its own
    DirectAccess* direct = nullptr;  // side 0's link

    Side side[2];
    Time now = 1 * kSecond;
    std::vector<Sent> log;
    std::function<Fate(const Sent&)> filter;
    std::function<void()> after_step;  // the programs of both sides
    bool keep_log = true;
    bool straight = false;       // what can take the straight path does
    unsigned went_straight = 0;  // requests, and SENDs and WRITEs that arrived
    unsigned went_short = 0;     // requests among them
    unsigned acknowledged_straight = 0, answered_straight = 0, concluded_straight = 0;
    unsigned settled_straight = 0;
    bool fetches = false;  // payloads that stay where they are are fetched from there
    unsigned times_fetched = 0;
    std::function<bool()> stores;  // whether a part of an answer may be written; without: it may
    unsigned times_stored = 0;
    bool runs = false;          // packets that come together are given to the queue pair as runs
    unsigned came_in_runs = 0;  // packets
    bool polls = true;          // both sides poll: held acknowledgements leave after each step

    Harness() = default;

    // Of side 0; all but SENDs are about `offset` of side 1's memory.
    SendRequest request(Operation operation, std::uint64_t wr_id = 1, std::size_t offset = 0,
                        std::uint32_t flags = kSignaled) const {
        SendRequest r;
        r.operation = operation;
        r.wr_id = wr_id;
        r.flags = flags;
        r.remote_address = side[1].address(offset);
        r.rkey = side[1].keys.rkey;
        return r;
    }

    Harness& start() {
        for (int i = 0; i < 2; i++) make(i);
        for (int i = 0; i < 2; i++) connect(i);
        return *this;
    }

    void make(int i) {
        Side& s = side[i];
        s.index = i;
        s.carry = [this](Side& from, const wire::OutPacket& out) { carry(from, out); };
        s.memory.assign(memory_size + kGuard, 0);  // the guard lies behind the region
        if (s.regions.add(1, s.memory.data(), memory_size, s.address(), access, s.keys)) std::abort();
        const bool xrc = service == Service::xrc_send;
        SharedQueueSetup shared{.pd = 1};
        if (xrc) shared = {.pd = 1, .cq = &s.receive_cq, .xrc_domain = kXrcDomain};
        s.receives =
            shared_receive_queue || xrc
                ? std::make_shared<ReceiveQueue>(capabilities.max_receive_wr, capabilities.max_receive_sge,
                                                 shared)
                : std::make_shared<ReceiveQueue>(capabilities.max_receive_wr, capabilities.max_receive_sge);
        QpSetup setup;
        setup.service = service_of(i);
        setup.number = 0x1000u + static_cast<unsigned>(i);
        setup.pd = 1;
        setup.capabilities = capabilities;
        setup.signal_all = signal_all;
        setup.send_cq = &s.send_cq;
        if (xrc) {
            xrc_queues.queues[kXrcQueue] = s.receives;  // side 1's stays
            setup.xrc_queues = &xrc_queues;
            setup.xrc_domain = kXrcDomain;
            setup.pd = i == 0 ? 1 : 0;
        } else {
            setup.receive_cq = &s.receive_cq;
            setup.receive_queue = s.receives;
        }
        setup.shared_receive_queue = shared_receive_queue;
        setup.regions = &s.regions;
        setup.shown = &s.shown;
        if (i == 0) setup.flows = flows;
        if (i == 0) setup.direct = direct;
        setup.listener = this;
        s.qp = QueuePair::create(setup);
        s.path.source = Gid::from_ipv4(0x0a000001u + static_cast<unsigned>(i));
        s.path.destination = Gid::from_ipv4(0x0a000001u + static_cast<unsigned>(1 - i));
    }

    Service service_of(int i) const {
        return service == Service::xrc_send && i == 1 ? Service::xrc_receive : service;
    }
    void to_init(int i) {
        Attributes a = attributes[i];
        a.state = QpState::init;
        must(i, a, kAttrState | kAttrPkeyIndex | kAttrPort | kAttrAccessFlags);
    }
    void to_rtr(int i) {
        Attributes a = attributes[i];
        a.path = side[i].path;
        a.destination_qp = 0x1000u + static_cast<unsigned>(1 - i);
        a.rq_psn = start_psn[1 - i];
        a.state = QpState::rtr;
        std::uint32_t mask = kAttrState | kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn;
        if (service_of(i) == Service::rc || service_of(i) == Service::xrc_receive)
            mask |= kAttrMaxDestRdAtomic | kAttrMinRnrTimer;
        must(i, a, mask);
    }
    void to_rts(int i) {
        Attributes a = attributes[i];
        a.sq_psn = start_psn[i];
        a.state = QpState::rts;
        std::uint32_t mask = kAttrState | kAttrSqPsn;
        if (service_of(i) == Service::xrc_receive) mask |= kAttrTimeout;
        if (service_of(i) == Service::rc || service_of(i) == Service::xrc_send)
            mask |= kAttrTimeout | kAttrRetryCount | kAttrRnrRetry | kAttrMaxQpRdAtomic;
        must(i, a, mask);
    }
    void connect(int i) {
        to_init(i);
        to_rtr(i);
        to_rts(i);
    }
    int modify(int i, QpState state, std::uint32_t mask = kAttrState) {
        Attributes a = attributes[i];
        a.state = state;
        a.sqd_async_notify = (mask & kAttrSqdAsyncNotify) != 0;
        return side[i].qp->modify(a, mask, now);
    }

    int post(int i, SendRequest request, std::initializer_list<Sge> sges = {}) {
        const std::vector<Sge> list(sges);
        request.sges = list;
        return post(i, {&request, 1});
    }
    // Together.
    int post(int i, std::span<const SendRequest> requests) {
        memory::Section section(side[i].sections);
        QueuePair& qp = *side[i].qp;
        if (straight && requests.size() == 1 && post_short(i, requests[0])) return 0;
        if (straight) {
            const Time before = qp.other_deadline();
            const auto [taken, follows] = qp.post_straight(requests, side[i], &side[i], now);
            if ((taken > 0) != (follows != QueuePair::kDeclined) || taken > requests.size()) std::abort();
            unsigned went = 0;
            if (counted(side[i], follows, before, went)) went_straight += taken;
            requests = requests.subspan(taken);
        }
        for (const SendRequest& request : requests)
            if (const int error = qp.post_send(request, now)) return error;
        return 0;
    }
    bool post_short(int i, const SendRequest& request) {
        if (!side[i].qp->is_rc()) return false;
        auto& qp = static_cast<RcQueuePair&>(*side[i].qp);
        const Time before = qp.other_deadline();
        if (!counted(side[i], qp.post_short(request, side[i], now), before, went_straight)) return false;
        went_short++;
        return true;
    }
    void post_receive(int i, std::uint64_t wr_id, std::vector<Sge> sges) {
        if (side[i].receives->post({wr_id, sges})) std::abort();
        side[i].qp->receives_posted();
    }

    // Sends what may leave now.
    void transmit(int i, bool push) {
        if (side[i].asleep) return;
        memory::Section section(side[i].sections);
        if (straight && push &&
            counted(side[i].qp->settle_straight(side[i], &side[i], now), settled_straight))
            return;
        while (!side[i].qp->transmit(side[i], now, 16, push)) {
        }
    }

    // Lets both sides send and the wire deliver until nothing happens for `quiet`, or `limit` is over.
    void run(Duration limit = 30 * kSecond) {
        const Time end = now + limit;
        for (;;) {
            for (int i = 0; i < 2; i++) transmit(i, polls);
            Time next = flying_.empty() ? kNever : flying_.front().at;
            for (const Side& s : side)
                if (!s.asleep) next = std::min(next, s.qp->next_deadline());
            if (next > end) {
                if (next != kNever) now = end;
                return;
            }
            now = std::max(now, next);
            step();
            if (after_step) after_step();
        }
    }

    std::vector<completion::Completion> poll(completion::CompletionQueue& queue) {
        std::vector<completion::Completion> out(64);
        out.resize(queue.poll(out));
        return out;
    }
    std::vector<completion::Completion> sends(int i) { return poll(side[i].send_cq); }
    std::vector<completion::Completion> receives(int i) { return poll(side[i].receive_cq); }

    void fill(int i, std::size_t offset, std::size_t length, unsigned seed) {
        for (std::size_t n = 0; n < length; n++)
            side[i].memory[offset + n] = static_cast<std::uint8_t>((n * 2654435761u + seed) >> 13);
    }
    bool equal(std::size_t offset0, std::size_t offset1, std::size_t length) const {
        return std::memcmp(side[0].memory.data() + offset0, side[1].memory.data() + offset1, length) == 0;
    }

    // The packets that side `from` sent, as "name psn" lines, for comparing whole exchanges.
    std::vector<Sent> packets(int from) const {
        std::vector<Sent> out;
        for (const Sent& s : log)
            if (s.from == from) out.push_back(s);
        return out;
    }

    // A packet made by the test, as if the peer of `to` had sent it.
    void inject(int to, wire::Headers headers, std::vector<std::uint8_t> payload = {}) {
        headers.bth.destination_qp = 0x1000u + static_cast<unsigned>(to);
        wire::Packet packet{headers, payload};
        memory::Section section(side[to].sections);
        side[to].qp->receive(packet, side[1 - to].path, now);
    }

   private:
    struct Flying {
        Time at;
        int to;
        std::vector<std::uint8_t> bytes;
        wire::Aside aside;
        iovec place;  // where an answer may be written to
    };

    void must(int i, const Attributes& a, std::uint32_t mask) {
        if (side[i].qp->modify(a, mask, now)) std::abort();
    }

    void qp_event(QueuePair& qp, QpEvent event) override { side[qp.number() & 1].events.push_back(event); }

    void carry(Side& from, wire::OutPacket out) {
        const iovec place = wire::place_told_by(out);
        if (place.iov_len > 0) out.payload = {};
        const std::uint32_t packets = from.largest == 0 ? out.aside.psns : 1;
        const std::size_t payload = wire::payload_length(out) / packets;
        wire::cut_apart(out, packets, [&](std::vector<std::uint8_t> bytes) {
            carry(from, std::move(bytes), payload, packets > 1 ? wire::Aside{} : out.aside, place);
        });
    }

    void carry(Side& from, std::vector<std::uint8_t> bytes, std::size_t payload, const wire::Aside& aside,
               const iovec& answer) {
        wire::Packet packet;
        if (wire::parse(bytes, packet) != wire::ParseError::none || packet.payload.size() != payload)
            std::abort();
        if (!keep_log) log.clear();
        log.push_back({from.index, now, packet.headers, payload, aside});
        const Fate fate = filter ? filter(log.back()) : kDeliver;
        log.back().dropped = fate.empty();
        for (const Duration later : fate) {
            const Time at = now + kOneWay + later;
            auto place = flying_.end();
            while (place != flying_.begin() && std::prev(place)->at > at) --place;
            flying_.insert(place, {at, 1 - from.index, bytes, aside, answer});
        }
    }

    // The run that has arrived first, if it is one and is taken as one.
    bool receive_run() {
        std::vector<std::uint8_t> bytes;
        const Flying& first = flying_.front();
        for (const Flying& each : flying_)
            if (each.at <= now && each.to == first.to && each.bytes.size() == first.bytes.size())
                bytes.insert(bytes.end(), each.bytes.begin(), each.bytes.end());
            else
                break;
        Side& s = side[first.to];
        const wire::ReceivedRun run = wire::leading_run(bytes, first.bytes.size());
        memory::Section section(s.sections);
        if (run.packets < 2 || !s.qp->receive_run(run, side[1 - first.to].path, now)) return false;
        came_in_runs += run.packets;
        flying_.erase(flying_.begin(), flying_.begin() + run.packets);
        return true;
    }

    // What arrives at one side at once.
    bool receive_together() {
        Side& s = side[flying_.front().to];
        std::vector<wire::InPacket> packets;
        for (const Flying& flying : flying_) {
            if (flying.to != s.index || flying.at > now) break;
            packets.push_back({flying.bytes, flying.aside});
        }
        const Time before = s.qp->other_deadline();
        memory::Section section(s.sections);
        const auto [taken, follows] = s.qp->receive_straight(packets, side[1 - s.index].path, now);
        if ((taken > 0) != (follows != QueuePair::kDeclined) || taken > packets.size()) std::abort();
        unsigned came = 0;
        if (!counted(s, follows, before, came)) return false;
        went_straight += taken;
        flying_.erase(flying_.begin(), flying_.begin() + static_cast<std::ptrdiff_t>(taken));
        return true;
    }

    bool receive_straight(Side& s, const Flying& flying) {
        const wire::Path& path = side[1 - s.index].path;
        const Time before = s.qp->other_deadline();
        const auto counted = [&](QueuePair::Straight follows, unsigned& count) {
            return Harness::counted(s, follows, before, count);
        };
        if (wire::BthWords ack; wire::parse_plain_ack(flying.bytes, ack))
            return counted(s.qp->acknowledge_straight(ack, path, now), acknowledged_straight);
        if (wire::WholeAtomic request; request.parse(flying.bytes))
            return counted(s.qp->answer_straight(request, s, path, now), answered_straight);
        if (wire::WholeAtomicAnswer answer; answer.parse(flying.bytes))
            return counted(s.qp->conclude_straight(answer, path, now), concluded_straight);
        return false;
    }
    // It tells if there is something to be done sooner than was known before.
    static bool counted(const Side& s, QueuePair::Straight follows, Time before, unsigned& count) {
        const bool tells = follows & (QueuePair::kWaits | QueuePair::kGoesOn);
        if (follows != QueuePair::kDeclined && !tells && s.qp->other_deadline() < before) std::abort();
        return counted(follows != QueuePair::kDeclined, count);
    }
    static bool counted(bool went, unsigned& count) {
        count += went;
        return went;
    }

    void step() {
        for (Side& s : side)
            if (!s.asleep && s.qp->next_deadline() <= now) s.qp->advance(now);
        while (!flying_.empty() && flying_.front().at <= now) {
            if (runs && !side[flying_.front().to].asleep && receive_run()) continue;
            if (straight && !side[flying_.front().to].asleep && receive_together()) continue;
            const Flying flying = std::move(flying_.front());
            flying_.pop_front();
            Side& s = side[flying.to];
            if (s.asleep) continue;
            memory::Section section(s.sections);
            if (straight && receive_straight(s, flying)) continue;
            wire::Packet packet;
            if (wire::parse(flying.bytes, packet) != wire::ParseError::none) std::abort();
            packet.aside = flying.aside;
            Fetched payload{packet.payload, flying.aside.placed, times_fetched};
            Stored place{flying.place, times_stored, !stores || stores()};
            if (flying.place.iov_len > 0) {
                packet.elsewhere = &place;
            } else if (fetches && flying.aside.stays) {
                packet.payload = {};
                packet.elsewhere = &payload;
            }
            s.qp->receive(packet, side[1 - flying.to].path, now);
        }
    }

    std::deque<Flying> flying_;
};

// For Harness::filter: the n-th packet (from 0) with this opcode from `from` is lost.
inline std::function<Fate(const Sent&)> lose(int from, wire::Opcode opcode, int nth = 0) {
    return [=, seen = 0](const Sent& s) mutable {
        return s.from == from && s.headers.bth.opcode == opcode && seen++ == nth ? kDrop : kDeliver;
    };
}

// How many packets with this opcode `from` has sent.
inline int count(const Harness& h, int from, wire::Opcode opcode) {
    int n = 0;
    for (const Sent& s : h.log) n += s.from == from && s.headers.bth.opcode == opcode;
    return n;
}

}  // namespace verbena::transport::testing
