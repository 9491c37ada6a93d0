// The two directions' flow control of a stream, as state machines without memory or queue pairs of their own.
//
// A message needs a credit (a place in the receiver's queue of messages) and room in the buffer that the
// receiver granted. Credits are counted in sequence numbers modulo 2^16. The receive buffer is granted in
// halves: one in the Hello, each further one when it has been read completely. Control messages need no
// credit: a few receives are theirs, and should these not do, the receiver-not-ready protocol of RC
// (IBA 9.7.5.2.8) takes care of them.
//
// Not thread safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rsocket/wire.h"

namespace verbena::rsocket {

inline constexpr unsigned kTargets = 2;  // entries of the list that the peer writes grants into

// What we may send.
class SendWindow {
   public:
    void open(const Hello& peer);

    // A credit message came. `list` is the memory that the peer writes to: new grants are taken out of it.
    void credited(std::uint16_t limit, std::span<Target, kTargets> list);

    // Bytes that the next message may carry; 0: wait for the peer.
    std::uint32_t room() const { return sent_ == limit_ ? 0 : targets_[current_].length; }
    bool has_credit() const { return sent_ != limit_; }

    // The next message carries so many bytes (at most room()): where to.
    Target take(std::uint32_t length);
    // A message without data for the buffer uses a credit.
    void take_credit() { sent_++; }

   private:
    std::array<Target, kTargets> targets_{};
    unsigned current_ = 0;   // sent to
    unsigned incoming_ = 1;  // granted next
    std::uint16_t sent_ = 0, limit_ = 0;
};

// What the peer may send, and what has come. Offsets are into the receive buffer of `size` bytes.
class ReceiveWindow {
   public:
    ReceiveWindow() = default;
    // `messages`: what the peer may have sent and we not read. `size` is even.
    ReceiveWindow(std::uint32_t size, std::uint16_t messages);

    // A message of data came. False: the peer broke the rules.
    [[nodiscard]] bool arrived(std::uint32_t length);
    // A message that used a credit but brings nothing to read.
    void passed() { read_++; }

    std::uint32_t available() const { return available_; }
    struct Piece {
        std::uint32_t offset = 0;
        std::uint32_t length = 0;
    };
    // What lies contiguously `ahead` bytes after the first that is not read.
    Piece piece(std::uint32_t ahead = 0) const;
    void read(std::uint32_t length);

    // The peer is to be told of a grant, or of credits.
    bool owes() const;
    struct Grant {
        std::uint16_t limit = 0;
        std::optional<Piece> buffer;
    };
    Grant grant();

   private:
    std::uint32_t half() const { return size_ / 2; }

    std::uint32_t size_ = 0;
    std::uint32_t offset_ = 0;     // of the first byte not read
    std::uint32_t available_ = 0;  // bytes not read
    std::uint32_t granted_ = 0;    // bytes that the peer may still send
    std::uint32_t free_ = 0;       // read and not granted again
    std::uint32_t free_offset_ = 0;

    std::vector<std::uint32_t> lengths_;  // of messages not read completely; a ring
    std::uint32_t first_ = 0, count_ = 0;
    std::uint16_t messages_ = 0;
    std::uint16_t read_ = 0;  // messages
    std::uint16_t tell_at_ = 0;
};

}  // namespace verbena::rsocket
