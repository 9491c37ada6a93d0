// Acknowledgements to one peer of this host that leave one behind the other, as they do where many queue
// pairs receive a message or two each: they share a slot of its ring. Each stands there as the packet that it
// is, but for the BTH's first word, which is the same in all.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "link/ring_layout.h"
#include "wire/bth.h"
#include "wire/packet_sink.h"

namespace verbena::link {

class AckRow {
   public:
    static constexpr std::size_t kHeaders = wire::kBthLength + wire::kAethLength;
    static constexpr std::size_t kFirstWord = 4, kEach = kHeaders - kFirstWord;  // bytes
    static constexpr std::size_t kMost = RingLayout::kInSlot / kEach;

    // Whether it may be one of a row.
    static bool suits(const wire::OutPacket& packet) {
        return packet.header_length == kHeaders && wire::load_be32(packet.header.data()) == kCommon &&
               packet.payload.empty() && !packet.aside.acknowledges && !packet.damaged;
    }
    bool full() const { return count_ == kMost; }
    void add(const wire::OutPacket& packet) {
        copy(bytes_.data() + count_++ * kEach, packet.header.data() + kFirstWord);
    }
    // It begins anew; valid until something is added.
    std::span<std::uint8_t> take() { return {bytes_.data(), std::exchange(count_, 0) * kEach}; }

    // Of the bytes of one: how many packets there are, and the headers of one of them.
    static std::size_t size(std::span<const std::uint8_t> row) { return std::min(row.size() / kEach, kMost); }
    static void read(std::span<const std::uint8_t> row, std::size_t at, std::uint8_t* headers) {
        wire::store_be32(headers, kCommon);
        copy(headers + kFirstWord, row.data() + at * kEach);
    }

   private:
    static constexpr std::uint32_t kCommon =
        std::uint32_t{static_cast<std::uint8_t>(wire::Opcode::rc_ack)} << 24 |
        std::uint32_t{wire::kBthMigrationRequest} << 16 | wire::kDefaultPkey;

    // Word by word, as it has just been written, or will be read: a load that spans two stores waits for
    // both.
    static void copy(std::uint8_t* to, const std::uint8_t* from) {
        for (std::size_t i = 0; i < kEach; i += 4) std::memcpy(to + i, from + i, 4);
    }

    std::size_t count_ = 0;
    std::array<std::uint8_t, kMost * kEach> bytes_;
};

}  // namespace verbena::link
