#include "link/local_spill.h"

#include <utility>

namespace verbena::link {

bool LocalSpill::append(LocalRing& ring, const wire::Path& path, std::span<const iovec> pieces,
                        const wire::Aside& aside, LocalRing::Form form) {
    if (packets_.empty() && ring.append(path, pieces, aside, form)) return true;
    Packet packet{path, aside, form, {}};
    for (const iovec& piece : pieces) {
        const auto* begin = static_cast<const std::uint8_t*>(piece.iov_base);
        packet.bytes.insert(packet.bytes.end(), begin, begin + piece.iov_len);
    }
    if (bytes_ + packet.bytes.size() > kLimit) return false;
    bytes_ += packet.bytes.size();
    packets_.push_back(std::move(packet));
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
