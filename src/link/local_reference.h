// Large payloads of SENDs and WRITEs need not be copied into the ring: the packet says where they lie in the
// producer's memory, and the consumer fetches them from there (process_vm_readv) into the program's buffers,
// when it knows which: one copy instead of two, but by the kernel, page by page, and on one processor, where
// the two go on at the same time. Which is faster differs from machine to machine and from length to length,
// by factors: it is measured as they go (adapter/pace.h), and fetching comes first. The producer leaves such
// payloads as they are until they have been acknowledged.
//
// A READ request may refer to where the beginning of its answer goes, which the consumer then writes there by
// itself (transport/rc_halves.cpp).
//
// The consumer says in the ring whether it does (LocalRing::fetch()), and no longer after the first failure;
// what was refused is sent again, and then its bytes travel along. A producer that has written the payload
// into its receive by itself (transport/shown_receives.h) names that receive as well.
//
// Thread safety: the thread in receive().
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <span>

#include "link/local_peers.h"
#include "wire/packet.h"

namespace verbena::link {

// Longer payloads may be fetched: a system call costs as much as copying that many bytes twice. Where copying
// is allowed, too, only those longer than transport::kMostStraight.
inline constexpr std::size_t kFetchedFrom = 8 << 10;
inline constexpr std::size_t kLargestFetched = std::size_t{1} << 20;  // nobody waits longer for a lock
inline constexpr std::size_t kLargestCopied = 32 << 10;
inline constexpr unsigned kMaxReferences = 64;  // and one that tells where it is already

struct LocalReference {
    // In the producer; or, without length, what wire::Aside::placed says.
    std::uint64_t address, length;
};

class ReferredPayload final : public wire::Elsewhere {
   public:
    explicit ReferredPayload(LocalPeer& peer) : peer_(peer) {}

    // What followed the headers. False: nonsense.
    bool read(std::span<const std::uint8_t> references);

    std::size_t length() const override { return length_; }
    std::uint64_t placed() const override { return placed_; }
    std::size_t copied() const { return copied_; }  // bytes
    bool fetch(std::uint32_t sender, std::span<const iovec> into) override;
    bool store(std::uint32_t requester, const std::uint8_t* from) override;
    void decline() override { peer_.in->fetch(false); }

   private:
    LocalPeer& peer_;
    std::array<iovec, kMaxReferences> pieces_;
    unsigned count_ = 0;
    std::size_t length_ = 0, copied_ = 0;  // bytes
    std::uint64_t placed_ = 0;
};

}  // namespace verbena::link
