// The requester's packets: headers and payload of each (IBA 9.2, 9.3, 9.4).
#include <algorithm>

#include "transport/copy.h"
#include "transport/mutation.h"
#include "transport/rc_requester.h"

namespace verbena::transport {
namespace {

using wire::Opcode;

// IBA 9.2, table 38; a message's place is given by its first and last packet.
Opcode opcode_of(Operation operation, bool first, bool last) {
    struct Row {
        Opcode first, middle, last, only;
    };
    auto pick = [&](const Row& row) {
        if (first) return last ? row.only : row.first;
        return last ? row.last : row.middle;
    };
    switch (operation) {
        case Operation::send_with_immediate:
            return pick({Opcode::rc_send_first, Opcode::rc_send_middle, Opcode::rc_send_last_immediate,
                         Opcode::rc_send_only_immediate});
        case Operation::send_with_invalidate:
            return pick({Opcode::rc_send_first, Opcode::rc_send_middle, Opcode::rc_send_last_invalidate,
                         Opcode::rc_send_only_invalidate});
        case Operation::rdma_write:
            return pick({Opcode::rc_write_first, Opcode::rc_write_middle, Opcode::rc_write_last,
                         Opcode::rc_write_only});
        case Operation::rdma_write_with_immediate:
            return pick({Opcode::rc_write_first, Opcode::rc_write_middle, Opcode::rc_write_last_immediate,
                         Opcode::rc_write_only_immediate});
        case Operation::atomic_write:
            return Opcode::rc_atomic_write;
        default:
            return pick(
                {Opcode::rc_send_first, Opcode::rc_send_middle, Opcode::rc_send_last, Opcode::rc_send_only});
    }
}

}  // namespace

// `count`: the PSNs that it takes, which may turn out to be one only.
bool RcRequester::emit(wire::PacketSink& sink, SendEntry& entry, std::uint32_t packet, std::uint32_t& count,
                       bool ask, Time now, wire::Aside& riding) {
    const std::uint32_t psn = wire::psn_add(entry.first_psn, packet);
    if (entry.is_read()) return emit_read(sink, entry, packet, psn), true;
    if (entry.is_atomic()) return emit_atomic(sink, entry, psn), true;
    if (entry.operation == Operation::flush) return emit_flush(sink, entry, psn), true;

    const std::uint32_t mtu = shared_.mtu();
    const std::uint64_t offset = std::uint64_t{packet} * mtu;
    auto length = static_cast<std::uint32_t>(std::min(std::uint64_t{count} * mtu, entry.length - offset));
    unsigned pieces = 0;
    if (entry.flags & kInline) {
        rest_->iovecs[0] = {queue_.inline_data(entry) + offset, length};
        pieces = length != 0;
    } else if (entry.operation == Operation::atomic_write && entry.sge_count == 0) {
        rest_->iovecs[0] = {&entry.compare_add, length};
        pieces = 1;
    } else {
        const auto look_up = [&] {
            return gather(shared_.regions(), shared_.basics().pd, queue_.sges(entry), offset, length,
                          rest_->iovecs.data(), pieces);
        };
        memory::LookupError error = look_up();
        if (error == memory::LookupError::out_of_bounds && count > 1) {  // a null region, perhaps
            count = 1;
            length = std::min(length, mtu);
            error = look_up();
        }
        if (error != memory::LookupError::none) {
            local_error(entry, offset_by(VendorError::send_lkey_unknown, error), now);
            return false;
        }
    }

    wire::Headers headers;
    const bool last = packet + count == entry.packets;
    address(headers.bth, shared_, opcode_of(entry.operation, packet == 0, last), psn);
    headers.bth.ack_request = ask;
    // IBA 9.2.3: only with the last packet of a message that consumes a receive.
    headers.bth.solicited = last && (entry.flags & kSolicited) && entry.operation != Operation::rdma_write;
    headers.xrceth.srqn = entry.remote_srq;
    headers.reth = {entry.remote_address, entry.rkey, entry.length};
    headers.immediate = entry.immediate_or_key;
    headers.invalidate_rkey = entry.immediate_or_key;
    const wire::Aside aside{count, riding.acknowledges, riding.acknowledged, entry.fetched, riding.placed};
    riding.acknowledges = false;
    riding.placed = 0;
    send_packet(sink, shared_, headers, {rest_->iovecs.data(), pieces}, length, wire::psn_less(psn, max_psn_),
                aside);
    return true;
}

void RcRequester::emit_read(wire::PacketSink& sink, const SendEntry& entry, std::uint32_t packet,
                            std::uint32_t psn) {
    std::uint64_t from = std::uint64_t{packet} * shared_.mtu();
    const std::uint64_t to =
        std::min<std::uint64_t>(std::uint64_t{packet + step(entry, packet)} * shared_.mtu(), entry.length);
    if (mutated(Mutation::read_resumed_one_packet_late) && packet % entry.chunk != 0)
        from = std::min<std::uint64_t>(from + shared_.mtu(), to);
    wire::Headers headers;
    address(headers.bth, shared_, Opcode::rc_read_request, psn);
    headers.bth.ack_request = true;
    headers.xrceth.srqn = entry.remote_srq;
    headers.reth = {entry.remote_address + from, entry.rkey, static_cast<std::uint32_t>(to - from)};
    if (psn != max_psn_ || !is_divided(entry, packet) || packets_at_once(sink, shared_, true) == 0)
        return send_packet(sink, shared_, headers, {}, 0);
    const Sge& sge = queue_.sges(entry)[0];
    const iovec place{reinterpret_cast<void*>(static_cast<std::uintptr_t>(sge.address + from)),
                      std::size_t{split_of(entry, packet, entry.packets).between - packet} * shared_.mtu()};
    send_packet(sink, shared_, headers, {&place, 1}, 0, false,
                {.stays = true, .placed = shared_.setup().shown->right_to_answer(sge.lkey)});
}

void RcRequester::emit_atomic(wire::PacketSink& sink, const SendEntry& entry, std::uint32_t psn) {
    wire::Headers headers;
    address(headers.bth, shared_, atomic_opcode(entry.operation), psn);
    headers.bth.ack_request = true;
    headers.xrceth.srqn = entry.remote_srq;
    headers.atomic_eth = atomic_eth_of(entry);
    send_packet(sink, shared_, headers, {}, 0);
}

// Annex A19.4.2.
void RcRequester::emit_flush(wire::PacketSink& sink, const SendEntry& entry, std::uint32_t psn) {
    wire::Headers headers;
    address(headers.bth, shared_, Opcode::rc_flush, psn);
    headers.bth.ack_request = true;
    headers.xrceth.srqn = entry.remote_srq;
    headers.feth = {static_cast<std::uint8_t>(entry.range_access & 0xff),
                    static_cast<std::uint8_t>(entry.range_access >> 8)};
    headers.reth = {entry.remote_address, entry.rkey, static_cast<std::uint32_t>(entry.range)};
    send_packet(sink, shared_, headers, {}, 0);
}

}  // namespace verbena::transport
