#include "link/local_reference.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

namespace verbena::link {

std::optional<TransferTimes> measure_transfers(const PeerMemory& memory) {
    using Clock = std::chrono::steady_clock;
    constexpr std::size_t kSample = 64 << 10;
    constexpr unsigned kRounds = 8;
    std::vector<std::uint8_t> from(kSample), into(kSample);
    TransferTimes best{kNever, kNever};
    for (unsigned round = 0; round < kRounds; round++) {
        const auto begin = Clock::now();
        std::memcpy(into.data(), from.data(), kSample);
        const auto copied = Clock::now();
        if (!memory.sample(into)) return std::nullopt;
        best.copy = std::min(best.copy, Duration{std::chrono::nanoseconds(copied - begin).count()});
        best.fetch = std::min(best.fetch, Duration{std::chrono::nanoseconds(Clock::now() - copied).count()});
    }
    return best;
}

bool ReferredPayload::read(std::span<const std::uint8_t> references) {
    count_ = 0;
    length_ = 0;
    placed_ = 0;
    if (references.size() > (kMaxReferences + 1) * sizeof(LocalReference)) return false;
    for (; references.size() >= sizeof(LocalReference);
         references = references.subspan(sizeof(LocalReference))) {
        LocalReference each;
        std::memcpy(&each, references.data(), sizeof each);
        if (each.length == 0) {
            placed_ = static_cast<std::uint32_t>(each.address);
            continue;
        }
        if (count_ == kMaxReferences || each.length > kLargestFetched - length_) return false;
        length_ += each.length;
        pieces_[count_++] = {reinterpret_cast<void*>(static_cast<std::uintptr_t>(each.address)), each.length};
    }
    return references.empty() && length_ > 0;
}

bool ReferredPayload::fetch(std::uint32_t sender, std::span<const iovec> into) {
    if (peer_.memory && peer_.out) {
        const LocalMark mark(*peer_.out);
        if (peer_.memory->fetch(sender, {pieces_.data(), count_}, into)) {
            fetched_ = length_;
            return true;
        }
    }
    decline();
    return false;
}

}  // namespace verbena::link
