// How a packet leaves the protocol code: headers built, and where the payload lies. The link copies it, adds
// padding and ICRC, groups packets into segmentation bursts and sends them.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/bth.h"
#include "wire/packet.h"
#include "wire/path.h"
#include "wire/short_packet.h"

namespace verbena::wire {

struct OutPacket {
    const Path* path = nullptr;
    std::array<std::uint8_t, kMaxHeaderLength> header;
    std::uint8_t header_length = 0;
    std::uint8_t pad_count = 0;      // zero bytes after the payload, 0..3, equal to the BTH's field
    std::span<const iovec> payload;  // copied by the call that takes the packet, unless it stays (below)
    bool alone = false;              // in no burst: a retransmission, which arrives also where bursts do not
    // By a plan of faults: the ICRC shall be wrong; and what a capture says of it (until flush()). Such a
    // packet leaves alone, too.
    bool damaged = false;
    const char* note = nullptr;
    Aside aside;  // as PacketSink::largest_payload() and longest_run() allow

    std::uint32_t destination_qp() const { return load_be32(header.data() + 4) & kLow24; }
};

// Apart from the sink, since some links copy from any thread and without a flush (link/link.h).
class PacketCopier {
   public:
    virtual ~PacketCopier() = default;

    // Takes one packet, whose payload is one piece at most, if it goes to a peer of this host and can be
    // copied at once: then it cannot be lost on its way, may have an aside, and its memory may change after
    // the call. False: nothing was done.
    virtual bool copy(const OutPacket&) { return false; }
    // The same of a short one behind another that was copied. False also if that did not go there.
    virtual bool copy_short(const ShortPacket&) { return false; }
};

class PacketSink : public PacketCopier {
   public:
    // Takes one packet; may send it now or with the next ones. Never fails: a packet that cannot leave is
    // lost, as on any wire.
    virtual void send(const OutPacket& packet) = 0;

    // The same of a packet that goes on with what was sent last, by a wire: to the same receive queue by the
    // same path, and as long. False: nothing was done; send() takes it.
    virtual bool go_on(const ShortPacket&) { return false; }

    // Everything taken so far leaves.
    virtual void flush() = 0;

    // What goes to a peer of this host leaves, and no lock is held behind it; what goes by a wire may wait
    // for more, until flush(). How many bytes wait.
    virtual std::size_t pause() {
        flush();
        return 0;
    }

    // 0: what leaves is a packet as on any wire. Otherwise the packets to that queue pair may have an aside,
    // and so many bytes, at least the path MTU, if they stand for several of a message. `stays`: of one
    // whose payload then stays as it is until the peer has acknowledged it, since it may be taken from where
    // it lies. May change from one packet to the next, not between the question and the packet that it was
    // about.
    virtual std::size_t largest_payload(const Path&, std::uint32_t /*destination_qp*/, bool /*stays*/) {
        return 0;
    }

    // How many middle packets of a message, all of the path MTU, may come as one with an aside that says how
    // many it stands for; the sink cuts them apart, and what leaves are packets as on any wire (run.h). May
    // change as above.
    virtual unsigned longest_run(const Path&, std::uint32_t /*destination_qp*/) { return 1; }

    // Packets to that queue pair wait for room already: who needs no acknowledgement to go on should pause.
    virtual bool is_full(const Path&, std::uint32_t /*destination_qp*/) { return false; }
};

}  // namespace verbena::wire
