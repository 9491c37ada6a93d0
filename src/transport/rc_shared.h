// What the requester and the responder of one connected queue pair (RC, XRC, UC) share.
#pragma once

#include "transport/common.h"

namespace verbena::transport {

inline constexpr std::uint64_t kMaxMessage = std::uint64_t{1} << 31;  // IBA 9.7.4.1.4 / 11.2.4: 2^31 bytes

// What requester and responder refer to of the queue pair that they belong to.
class ConnectedQueuePair : public QueuePair {
   protected:
    struct Rest : QueuePair::Rest {
        using QueuePair::Rest::Rest;

        Attributes attributes;
    };
    explicit ConnectedQueuePair(const QpSetup& setup) : QueuePair(std::make_unique<Rest>(setup)) {
        forget_attributes();
    }

    const Attributes& attributes() const { return rest().attributes; }
    void set_attributes(const Attributes& attributes) {
        rest().attributes = attributes;
        connection_ = attributes;
    }
    // All but what it was made with.
    void forget_attributes() {
        Attributes none;
        none.capabilities = setup().capabilities;
        set_attributes(none);
    }

    alignas(64) Connection connection_;

   private:
    friend class RcShared;
    Rest& rest() const { return static_cast<Rest&>(*rest_); }
};

// A reference to that, which is all that each of them keeps.
class RcShared {
   public:
    explicit RcShared(ConnectedQueuePair& of) : of_(of) {}

    // What every message needs, and all.
    const QpBasics& basics() const { return of_.basics_; }
    const QpSetup& setup() const { return of_.setup(); }
    const Connection& connection() const { return of_.connection_; }
    const Attributes& attributes() const { return of_.attributes(); }
    BusyCounters& counters() const { return of_.counters_; }
    RareCounters& rare() const { return of_.rare(); }

    // IBA 9.8.2: UC acknowledges nothing.
    bool reliable() const { return basics().service != Service::uc; }
    std::uint32_t mtu() const { return connection().path_mtu; }
    const memory::RegionTable& regions() const { return *basics().regions; }
    void count_completed(auto operation, bool success, std::uint64_t bytes) const {
        if (basics().is_counted) [[unlikely]]
            transport::count_completed(setup(), operation, success, bytes);
    }
    void event(QpEvent e) const {
        if (setup().listener) setup().listener->qp_event(of_, e);
    }

   private:
    ConnectedQueuePair& of_;
};

// PSNs that a message, or a READ's response, of `length` bytes takes: an empty one takes one too (IBA 9.7.2).
constexpr std::uint32_t packets_of(std::uint64_t length, std::uint32_t mtu) {
    return length == 0 ? 1 : static_cast<std::uint32_t>((length + mtu - 1) / mtu);
}

constexpr wire::Opcode atomic_opcode(Operation operation) {
    return operation == Operation::compare_swap ? wire::Opcode::rc_compare_swap : wire::Opcode::rc_fetch_add;
}

// IBA 9.3.5.3: FETCH & ADD carries the addend where COMPARE & SWAP carries the swap value.
wire::AtomicEth atomic_eth_of(const auto& request) {
    const bool swap = request.operation == Operation::compare_swap;
    return {request.remote_address, request.rkey, swap ? request.swap : request.compare_add,
            swap ? request.compare_add : 0};
}

constexpr wire::Service wire_service(Service service) {
    switch (service) {
        case Service::uc:
            return wire::Service::uc;
        case Service::xrc_send:
        case Service::xrc_receive:
            return wire::Service::xrc;
        default:
            return wire::Service::rc;
    }
}

// The fields that are equal in all packets of a queue pair. MigReq is 1 as adapters send it (IBA 17.2.8.1.2:
// migrated).
inline void address_rc(wire::Bth& bth, const RcShared& shared, wire::Opcode opcode, std::uint32_t psn) {
    bth.opcode = opcode;
    bth.migration_request = true;
    bth.pkey = kDefaultPkey;
    bth.destination_qp = shared.connection().destination_qp;
    bth.psn = psn;
}
// The same for every service; `opcode` is RC's.
inline void address(wire::Bth& bth, const RcShared& shared, wire::Opcode opcode, std::uint32_t psn) {
    address_rc(bth, shared, wire::with_service(opcode, wire_service(shared.basics().service)), psn);
}

inline void send_packet(wire::PacketSink& sink, RcShared& shared, wire::Headers& headers,
                        std::span<const iovec> payload, std::uint32_t payload_length,
                        bool sent_before = false, const wire::Aside& aside = {}) {
    send_packet(sink, shared.connection().path, headers, payload, payload_length, shared.counters(),
                sent_before, aside);
}

// Before receives, and what READs ask for, are the program's again.
inline void withdraw_shown(const RcShared& shared) {
    ShownReceives* const shown = shared.setup().shown;
    if (!shown || !(shown->is_shown() || shown->takes_answers())) return;
    shown->withdraw();
    shared.regions().wait_for_outsiders({.qp = shared.basics().number}, ShownReceives::kWritten);
}

// How many packets of a message may leave as one large one (PacketSink::largest_payload); 0: none, nor an
// aside.
inline std::uint32_t packets_at_once(wire::PacketSink& sink, const RcShared& shared, bool stays) {
    if (shared.basics().service != Service::rc) return 0;
    const Connection& a = shared.connection();
    return static_cast<std::uint32_t>(sink.largest_payload(a.path, a.destination_qp, stays) / a.path_mtu);
}

// Of a SendRequest or SendEntry.
inline DirectTarget target_of(const RcShared& shared, const auto& request, std::uint32_t length,
                              std::uint32_t offset, std::uint32_t reads_at_once, Time now) {
    const Connection& a = shared.connection();
    return {a.path,       shared.basics().number, a.destination_qp,
            request.rkey, request.remote_address, length,
            offset,       reads_at_once,          now};
}

}  // namespace verbena::transport
