// Packets for a peer whose ring was full when they came, in their order: they follow as soon as the peer has
// made room (LocalRing::await_room()), so that a full ring delays and does not lose. Who sends by itself,
// without acknowledgements, asks first (wire::PacketSink::is_full()) and waits; what remains is bounded by
// the transport's windows, and beyond kLimit a packet is lost, as on any wire.
//
// Thread safety: under the lock of the peer that it belongs to.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "link/local_ring.h"
#include "wire/path.h"

namespace verbena::link {

class LocalSpill {
   public:
    static constexpr std::size_t kLimit = std::size_t{8} << 20;  // bytes

    bool empty() const { return packets_.empty(); }

    // Behind everything that waits already; into the ring itself if nothing does. False: lost.
    bool append(LocalRing& ring, const wire::Path& path, std::span<const iovec> pieces,
                const wire::Aside& aside, LocalRing::Form form);
    // Moves what there is room for. If some is left, the consumer has been asked to tell.
    void move_to(LocalRing& ring);
    void clear();

   private:
    struct Packet {
        wire::Path path;
        wire::Aside aside;
        LocalRing::Form form;
        std::vector<std::uint8_t> bytes;
    };
    std::deque<Packet> packets_;
    std::size_t bytes_ = 0;
};

}  // namespace verbena::link
