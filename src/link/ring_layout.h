// What the two sides of a ring share: where everything lies in its file, and what it is (local_ring.h).
//
//     page 0: head, marks and awaited (the producer's), tail and sleepers (the consumer's)
//     slots, one for each packet, a cache line: its number, what it is, and the packet if that is short;
//         successive ones lie apart (slot_order.h)
//     beside the slots, two lines for each in the same order: a packet of up to 128 bytes
//     data: the other packets, padded to 64 bytes; behind short ones there may be a space, since a processor
//         that reads a packet fetches ahead what the producer is about to write behind it (slot_order.h)
//
// A slot may stand for several acknowledgements (ack_row.h).
//
// A packet lies behind its two addresses unless they are those of the one before. (Of the rest of its path
// only the flow's source port differs, from queue pair to queue pair, and nobody asks for that in memory.)
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/gid.h"

namespace verbena::link {

struct RingLayout {
    static constexpr std::uint64_t kMagic = 0x42474e52'42524556;  // "VERBRNGB" in memory order
    static constexpr std::size_t kSlots = 4096;                   // packets
    static constexpr std::size_t kInSlot = 48;                    // bytes: a BTH and 36 of payload
    static constexpr std::size_t kBeside = 128;                   // bytes beside each slot
    static constexpr std::size_t kCapacity = 512 << 10;           // bytes of data: a flow's window fits
    static constexpr std::size_t kSpace = 1 << 10;                // bytes, behind a packet
    static constexpr std::size_t kSpacedBelow = 4 << 10;  // bytes of it: longer ones go past the cache
    static constexpr unsigned kMarks = 8;

    // How many threads are at work, in the lowest bits, and on what (memory::Work), in 24 bits each; nothing
    // is said of several.
    struct Mark {
        static constexpr std::uint64_t kThreads = 0xffff;
        static constexpr unsigned kQpAt = 16, kRegionAt = 40;

        alignas(64) std::atomic<std::uint64_t> word;
    };
    // How many slots, and bytes of data, there ever were.
    struct SharedPosition {
        std::atomic<std::uint64_t> slots, data;
    };
    struct Control {
        std::uint64_t magic;
        alignas(64) SharedPosition head;
        alignas(64) SharedPosition tail;
        alignas(64) std::atomic<std::uint32_t> sleepers;
        alignas(64) std::atomic<std::uint32_t> awaited;
        alignas(64) std::atomic<std::uint32_t> fetches;
        std::array<Mark, kMarks> marks;
    };
    enum Flag : std::uint32_t {
        kHasAddresses = 1u << 24,
        kAcknowledges = 1u << 25,
        kElsewhere = 1u << 26,
        kFollowed = 1u << 27,
        kSpaced = 1u << 28,
        kRow = 1u << 29
    };
    // What a record's bytes are.
    enum class Form : std::uint32_t {
        packet = 0,
        reference = kElsewhere,  // a packet's headers, and where its payload lies (local_reference.h)
        row = kRow               // acknowledgements (ack_row.h)
    };
    static constexpr std::uint32_t kPsnBits = 0xffffff;
    struct Addresses {
        Gid source, destination;
    };
    struct Record {
        std::uint32_t length;
        std::uint32_t flags;  // and the PSN that is acknowledged
        std::uint32_t psns;

        bool is_followed() const { return (flags & kFollowed) != 0; }
        // Than a packet's bytes at their usual place.
        bool has_more() const { return (flags & (kHasAddresses | kElsewhere | kRow)) != 0; }
    };
    struct alignas(64) Slot {
        std::atomic<std::uint32_t> number;  // from 1 on
        Record record;
        std::uint8_t packet[kInSlot];

        bool holds(std::uint64_t place) const {
            return number.load(std::memory_order_acquire) == static_cast<std::uint32_t>(place + 1);
        }
        void publish(std::uint64_t place) {
            number.store(static_cast<std::uint32_t>(place + 1), std::memory_order_release);
        }
    };

    // Where they begin in the file.
    static constexpr std::size_t kPage = 4096;
    static constexpr std::size_t kSlotsAt = kPage, kBesidesAt = kSlotsAt + kSlots * sizeof(Slot),
                                 kDataAt = kBesidesAt + kSlots * kBeside, kFile = kDataAt + kCapacity;
    static_assert(sizeof(Slot) == 64 && sizeof(Control) <= kPage);
};

}  // namespace verbena::link
