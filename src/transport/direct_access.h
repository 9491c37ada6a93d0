// What a link to peers of the same host can do that no wire can: execute an RDMA WRITE or READ itself, as a
// DMA engine would, and say whether the peer is alive but stands still.
//
// Order. The requester asks when every earlier request of its queue pair has been executed and acknowledged,
// so a later WRITE is never seen before an earlier request; such an operation takes no PSN, but those of a
// WRITE that both copy, and of which we execute a part.
//
// Declining costs nothing: the request then leaves as packets, and what was wrong with it (key, bounds,
// rights, state) is found and told by the responder. An operation that was declined half-way is repeated
// whole, which an RDMA WRITE or READ may be (IBA 9.7.5.1.1).
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <optional>
#include <span>

#include "base/time.h"
#include "transport/packet_pace.h"
#include "transport/shown_receives.h"
#include "wire/path.h"

namespace verbena::transport {

struct DirectTarget {
    const wire::Path& path;     // ours, towards the peer
    std::uint32_t qp_number;    // our queue pair's
    std::uint32_t destination;  // the peer's
    std::uint32_t rkey;
    std::uint64_t address;
    std::uint32_t length;         // of the whole operation, not 0
    std::uint32_t offset;         // where this part of it begins
    std::uint32_t reads_at_once;  // that might be outstanding now if they left as packets
    Time now;
    bool by_both = false;  // the peer copies another part meanwhile
};

// A part of a SEND's payload that is to be written into a receive of the peer's.
struct PlaceTarget {
    const wire::Path& path;  // as above
    std::uint32_t qp_number, destination;
    std::uint32_t receive;  // ShownReceives
    std::uint32_t offset;   // where the part begins in the message
    Time now;
};

// What became of one part. Done: it is visible to the peer's program in the order that IBA 9.5 and common
// practice ask for (the last word last). Not yet: the peer's queue pair waits for its first packet (in RTR,
// IBA 11.5.1), after which it may be asked again.
enum class Direct : std::uint8_t { done, declined, not_yet };

// Bytes. Many WRITEs of up to the first take less time as packets than as system calls, everywhere; READs of
// up to the second are executed wherever they can be. Which way is faster for longer ones is measured.
inline constexpr std::uint32_t kSmallWrite = 1 << 10, kSmallRead = (4 << 10) - 1;
// SENDs of up to so many are copied as one packet; which way is faster for longer ones is measured, and until
// it is known they are fetched.
inline constexpr std::uint32_t kMostStraight = 12 << 10;

// Messages from this length on may be copied by both sides, a half each (rc_halves.cpp).
inline constexpr std::uint32_t kHalved = ShownReceives::kFrom;

// Of a payload's pieces together, bytes.
inline std::size_t length_of(std::span<const iovec> list) {
    std::size_t length = 0;
    for (const iovec& piece : list) length += piece.iov_len;
    return length;
}

class DirectAccess {
   public:
    virtual ~DirectAccess() = default;
    // Under the queue pair's lock, inside a memory::Section.
    virtual Direct write(const DirectTarget& target, std::span<const iovec> from) = 0;
    virtual Direct read(const DirectTarget& target, std::span<const iovec> into) = 0;
    // How long it takes usually to execute a small one; 0: not known.
    virtual Duration call_takes() const { return 0; }

    // Whether much at a time, or many, in operations of that length, are there sooner as packets, which the
    // peer's processor takes in while ours puts out the next ones. Among others: of the queue pair, that have
    // left as packets and would have to be waited for.
    virtual bool packets_are_faster(const wire::Path&, std::uint32_t /*destination*/,
                                    std::uint32_t /*length*/, bool /*read*/, bool /*among_others*/,
                                    Time /*now*/) {
        return false;
    }
    // They were not: the peer let them wait.
    virtual void packets_were_slow(const wire::Path&, std::uint32_t /*destination*/, Time /*now*/) {}

    // Whether each side may copy a half of a large message that leaves as packets, or whose payload would be
    // fetched (rc_halves.cpp): the peer takes payloads from where they lie, and is likely to be free for it.
    virtual bool both_copy(const wire::Path&, std::uint32_t /*destination*/, Time /*now*/) { return false; }
    // It has not yet done all that was sent to it.
    virtual bool is_behind(const wire::Path&, std::uint32_t /*destination*/) { return false; }

    // Whether a SEND of that length, whose payload stays as it is until it has been acknowledged, is there
    // sooner if the peer fetches it than if both copy it. Among others: of the queue pair, that are under
    // way; else it may be one that is answered before the next one comes.
    virtual bool fetching_is_faster(const wire::Path&, std::uint32_t /*destination*/,
                                    std::uint32_t /*length*/, bool /*among_others*/, Time /*now*/) {
        return false;
    }
    // Where the numbering of the receives stands that the peer shows. Nothing: it shows none.
    virtual std::optional<ShownReceives::Next> shown(const wire::Path&, std::uint32_t /*destination*/) {
        return std::nullopt;
    }
    // Before it leaves for the first time. Declined: it has to be fetched. Not yet: that receive is not
    // shown.
    virtual Direct place(const PlaceTarget&, std::span<const iovec> /*from*/) { return Direct::declined; }

    // How fast what went one of these ways passed, the acknowledgement of the last ones and all waiting
    // included.
    virtual void measured(const wire::Path&, std::uint32_t /*destination*/, const PacketPace::Sample&) {}

    // Whether asking has a chance at all.
    virtual bool reaches(const wire::Path& path, std::uint32_t destination) = 0;

    // The peer's process lives and has not yet looked at something that was sent to it: it was stopped, or a
    // debugger has it, or it does not get the processor. Its silence means nothing.
    virtual bool stands_still(const wire::Path& path, std::uint32_t destination) = 0;
};

}  // namespace verbena::transport
