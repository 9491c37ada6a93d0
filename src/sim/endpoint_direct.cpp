// What the link does for an endpoint without packets (sim_direct.h): seen as it happens, by the rules of
// transport/direct_access.h and transport/shown_receives.h.
#include "sim/endpoint.h"

namespace verbena::sim {

using namespace transport;

bool Endpoint::lies_in(const std::vector<Piece>& pieces, const iovec& local) const {
    const auto* const first = static_cast<const std::uint8_t*>(local.iov_base);
    for (const Piece& piece : pieces)
        if (first >= arena_.address(piece.offset) && first < arena_.address(piece.offset) + piece.length)
            return true;
    return false;
}

// Which of our requests that is: by its buffer, or by what lies there, if that was copied.
std::uint32_t Endpoint::find_request(const DirectTarget& target, std::span<const iovec> local,
                                     bool write) const {
    const auto bytes = [&] {
        return std::span(static_cast<const std::uint8_t*>(local[0].iov_base), local[0].iov_len);
    };
    for (std::uint32_t i = executed_; i < posted_; i++) {
        const Op& op = plan_.ops[i];
        if ((write ? op.operation != Operation::rdma_write : !op.is_read()) || op.length != target.length)
            continue;
        if ((op.flags & kInline) ? target.address == peer_->iova_ + op.remote_offset &&
                                       matching_prefix(op.key, target.offset, bytes()) == local[0].iov_len
                                 : lies_in(ops_[i].pieces, local[0]))
            return i;
    }
    return kNone;
}

// Whatever comes before it has had its effect: no later WRITE is seen before it, and no later READ misses it.
// Other READs may still be under way beside one of which we copy a part.
void Endpoint::link_executes(const DirectTarget& target, std::span<const iovec> local, bool write) {
    const std::uint32_t index = find_request(target, local, write);
    if (index == kNone) return violation("the link executes what is no request, or one before the last");
    if (target.address != peer_->iova_ + plan_.ops[index].remote_offset)
        return violation("the link executes request %u at another place", index);
    const bool beside_reads = target.by_both && !write;
    for (std::uint32_t i = executed_; i < index && world_.verdict.good(); i++) {
        if (beside_reads && plan_.ops[i].is_read()) continue;
        if (plan_.ops[i].mistake != Mistake::none)
            violation("the link executes request %u although request %u must fail", index, i);
        else
            check_effect(i);
    }
    if (!beside_reads) executed_ = index;
}

// Into the receive that the message will take.
void Endpoint::link_places(const PlaceTarget& target, std::span<const iovec> from) {
    for (std::uint32_t i = 0; i < posted_; i++) {
        if (!plan_.ops[i].is_send() || !lies_in(ops_[i].pieces, from[0])) continue;
        if (ops_[i].delivered) return violation("request %u is written again after it has arrived", i);
        if (ops_[i].receive == target.receive) return;
        return violation("request %u is written into receive %u, not %u", i, target.receive, ops_[i].receive);
    }
    violation("what is written into receive %u is no request", target.receive);
}

// Receives may lie in the same buffer. Request `index` has arrived there, and this byte of it is a later
// one's.
bool Endpoint::laid_over(std::uint32_t index, std::uint32_t offset, std::uint8_t value) const {
    const std::uint32_t buffers = peer_->plan_.buffers;
    if (buffers == 0) return false;
    for (std::uint32_t later = index + 1; later < posted_; later++) {
        const Op& op = plan_.ops[later];
        if (op.is_send() && ops_[later].receive % buffers == ops_[index].receive % buffers &&
            offset < op.length && value == pattern_byte(op.key, offset))
            return true;
    }
    return false;
}

// How many receives may hold a part of a message that did not arrive: those that are shown are written ahead
// of it.
std::uint32_t Endpoint::most_parts() const {
    return process_.plan().direct.there ? ShownReceives::kMost + 1 : 1;
}

}  // namespace verbena::sim
