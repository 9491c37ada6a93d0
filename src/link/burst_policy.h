// Where segmentation bursts may be used: not at all if the kernel does not have them, and for a while not
// towards peers for which a burst was refused or seems not to have arrived. "A while" is counted in packets,
// and doubles each time, so that bad luck costs little and a peer that really cannot be sent bursts is hardly
// tried again.
//
// Thread safety: all calls. Two threads that count at once may lose a count.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/gid.h"

namespace verbena::link {

class BurstPolicy {
   public:
    explicit BurstPolicy(bool enabled) : enabled_(enabled) {}

    // Asked once for each message that is begun.
    bool allowed(const Gid& destination) {
        if (!enabled_.load(std::memory_order_relaxed)) return false;
        const std::uint64_t key = hash(destination);
        Peer& peer = peers_[key % kPeers];
        if (peer.key.load(std::memory_order_relaxed) != key) return true;
        const std::uint32_t left = peer.left.load(std::memory_order_relaxed);
        if (left > 0) peer.left.store(left - 1, std::memory_order_relaxed);
        return left == 0;
    }

    // Another peer may take the place, which costs a repetition of the discovery.
    void avoid(const Gid& destination) {
        const std::uint64_t key = hash(destination);
        Peer& peer = peers_[key % kPeers];
        const bool again = peer.key.load(std::memory_order_relaxed) == key;
        const std::uint32_t before =
            again ? peer.sentence.load(std::memory_order_relaxed) : kFirstSentence / 2;
        const std::uint32_t sentence = before < kLongestSentence ? 2 * before : before;
        peer.sentence.store(sentence, std::memory_order_relaxed);
        peer.left.store(sentence, std::memory_order_relaxed);
        peer.key.store(key, std::memory_order_relaxed);
    }

    void disable() { enabled_.store(false, std::memory_order_relaxed); }

   private:
    static constexpr unsigned kPeers = 61;
    static constexpr std::uint32_t kFirstSentence = 1u << 14;  // packets
    static constexpr std::uint32_t kLongestSentence = 1u << 30;

    struct Peer {
        std::atomic<std::uint64_t> key{0};
        std::atomic<std::uint32_t> left{0}, sentence{0};
    };

    std::atomic<bool> enabled_;
    std::array<Peer, kPeers> peers_;
};

}  // namespace verbena::link
