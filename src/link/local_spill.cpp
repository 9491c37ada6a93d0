#include "link/local_spill.h"

#include <new>
#include <utility>

namespace verbena::link {

bool LocalSpill::append(LocalRing& ring, const wire::Path& path, std::span<const iovec> pieces,
                        const wire::Aside& aside, LocalRing::Form form) {
    if (packets_.empty() && ring.append(path, pieces, aside, form)) return true;
    try {
        Packet packet{path, aside, form, {}};
        for (const iovec& piece : pieces) {
            const auto* begin = static_cast<const std::uint8_t*>(piece.iov_base);
            packet.bytes.insert(packet.bytes.end(), begin, begin + piece.iov_len);
        }
        const std::size_t size = packet.bytes.size();
        if (bytes_ + size > kLimit) return false;
        packets_.push_back(std::move(packet));
        bytes_ += size;
    } catch (const std::bad_alloc&) {
        return false;
    }
    move_to(ring);
    return true;
}

void LocalSpill::move_to(LocalRing& ring) {
    while (!packets_.empty()) {
        Packet& packet = packets_.front();
        const iovec piece{packet.bytes.data(), packet.bytes.size()};
        while (!ring.append(packet.path, {&piece, 1}, packet.aside, packet.form))
            if (!ring.await_room()) return;
        bytes_ -= packet.bytes.size();
        packets_.pop_front();
    }
}

void LocalSpill::clear() {
    packets_.clear();
    bytes_ = 0;
}

}  // namespace verbena::link
