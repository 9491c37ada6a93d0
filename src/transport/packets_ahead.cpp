#include "transport/packets_ahead.h"

#include <new>
#include <utility>

namespace verbena::transport {

std::atomic<std::size_t> PacketsAhead::bytes_of_all_{0};

bool PacketsAhead::keep(const wire::Packet& packet, std::uint32_t expected) {
    const std::uint32_t psn = packet.headers.bth.psn;
    const std::size_t size = size_of(packet.payload.size());
    if (wire::psn_diff(psn, expected) > kFarthest || bytes_ + size > kMost ||
        bytes_of_all_.load(std::memory_order_relaxed) + size > kMostOfAll)
        return false;
    try {
        KeptPacket kept{packet.headers, {packet.payload.begin(), packet.payload.end()}};
        if (packets_.try_emplace(psn, std::move(kept)).second) count(size, 0);
    } catch (const std::bad_alloc&) {
        return false;
    }
    return true;
}

std::optional<KeptPacket> PacketsAhead::take(std::uint32_t psn) {
    while (!packets_.empty() && wire::psn_less_equal(packets_.begin()->first, psn)) {
        const auto first = packets_.extract(packets_.begin());
        count(0, size_of(first.mapped().payload.size()));
        if (first.key() == psn) return std::move(first.mapped());
    }
    return {};
}

void PacketsAhead::clear() {
    packets_.clear();
    count(0, bytes_);
}

void PacketsAhead::count(std::size_t added, std::size_t removed) {
    bytes_ += added - removed;
    bytes_of_all_.fetch_add(added - removed, std::memory_order_relaxed);
}

}  // namespace verbena::transport
