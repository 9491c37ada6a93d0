#include "rsocket/windows.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>

namespace verbena::rsocket {

void SendWindow::open(const Hello& peer) {
    targets_[0] = peer.buffer;
    limit_ = peer.credits;
}

// A slot is granted into again only after we filled the buffer that it described before, so a slot in use is
// never overwritten; a zero length says that nothing new is there.
// The peer may be writing the next one while we look: the word with the length comes last, and in one piece.
void SendWindow::credited(std::uint16_t limit, std::span<Target, kTargets> list) {
    static_assert(offsetof(Target, key) == 8 && offsetof(Target, length) == 12 && alignof(Target) == 8);
    limit_ = limit;
    const auto is_new = [](Target& target) {
        auto& word = reinterpret_cast<std::uint64_t&>(target.key);
        const std::uint64_t both = std::atomic_ref(word).load(std::memory_order_acquire);
        std::uint32_t halves[2];
        std::memcpy(halves, &both, sizeof both);
        return halves[1] != 0;
    };
    while (is_new(list[incoming_]) && targets_[incoming_].length == 0) {
        targets_[incoming_] = list[incoming_];
        list[incoming_] = {};
        incoming_ = (incoming_ + 1) % kTargets;
    }
}

Target SendWindow::take(std::uint32_t length) {
    Target& target = targets_[current_];
    const Target piece{target.address, target.key, length};
    target.address += length;
    target.length -= length;
    sent_++;
    if (target.length == 0) current_ = (current_ + 1) % kTargets;
    return piece;
}

ReceiveWindow::ReceiveWindow(std::uint32_t size, std::uint16_t messages)
    : size_(size),
      granted_(size / 2),
      free_(size / 2),
      free_offset_(size / 2),
      lengths_(messages + 1u),
      messages_(messages),
      tell_at_(messages / 2) {}

bool ReceiveWindow::arrived(std::uint32_t length) {
    if (length > granted_ || count_ == lengths_.size()) return false;
    lengths_[(first_ + count_) % lengths_.size()] = length;
    count_++;
    granted_ -= length;
    available_ += length;
    if (length == 0 && count_ == 1) read(0);
    return true;
}

ReceiveWindow::Piece ReceiveWindow::piece(std::uint32_t ahead) const {
    if (ahead >= available_) return {};
    const std::uint32_t offset = (offset_ + ahead) % size_;
    return {offset, std::min(available_ - ahead, size_ - offset)};
}

void ReceiveWindow::read(std::uint32_t length) {
    offset_ = (offset_ + length) % size_;
    available_ -= length;
    free_ += length;
    while (count_ > 0 && lengths_[first_] <= length) {
        length -= lengths_[first_];
        first_ = static_cast<std::uint32_t>((first_ + 1) % lengths_.size());
        count_--;
        read_++;
    }
    if (length > 0) lengths_[first_] -= length;
}

bool ReceiveWindow::owes() const {
    return free_ >= half() || static_cast<std::int16_t>(static_cast<std::uint16_t>(read_ - tell_at_)) >= 0;
}

ReceiveWindow::Grant ReceiveWindow::grant() {
    Grant grant;
    tell_at_ = static_cast<std::uint16_t>(read_ + messages_ / 2);
    grant.limit = static_cast<std::uint16_t>(read_ + messages_);
    if (free_ >= half()) {
        grant.buffer = Piece{free_offset_, half()};
        free_ -= half();
        granted_ += half();
        free_offset_ = free_offset_ + half() >= size_ ? 0 : free_offset_ + half();
    }
    return grant;
}

}  // namespace verbena::rsocket
