#include "link/local_reference.h"

#include <cstring>

namespace verbena::link {

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
            placed_ = each.address;
            continue;
        }
        if (count_ == kMaxReferences || each.length > kLargestFetched - length_) return false;
        length_ += each.length;
        pieces_[count_++] = {reinterpret_cast<void*>(static_cast<std::uintptr_t>(each.address)), each.length};
    }
    return references.empty() && length_ > 0;
}

bool ReferredPayload::fetch(std::uint32_t sender, std::span<const iovec> into) {
    using Fetched = PeerMemory::Fetched;
    const Fetched what =
        peer_.memory ? peer_.memory->fetch(sender, {pieces_.data(), count_}, into) : Fetched::refused;
    if (what == Fetched::refused) decline();
    if (what == Fetched::done) copied_ = length_;
    return what == Fetched::done;
}

bool ReferredPayload::store(std::uint32_t requester, const std::uint8_t* from) {
    const LocalPeers::Visit visit(&peer_);
    if (count_ != 1 || !visit.peer() || !peer_.memory) return false;
    LocalMark mark(*peer_.out, {.qp = requester});
    const PeerMemory::Place place{requester, placed_, reinterpret_cast<std::uintptr_t>(pieces_[0].iov_base)};
    if (!peer_.memory->store(place, peer_.life_fd, {from, length_}, mark)) return false;
    copied_ = length_;
    return true;
}

}  // namespace verbena::link
