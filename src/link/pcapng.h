// What pcapng files are made of (draft-ietf-opsawg-pcapng): blocks of {type, total length, body, total
// length}, all numbers as x86 has them. Those of other byte orders are not read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/byte_order.h"

namespace verbena::link::pcapng {

inline constexpr std::uint32_t kSectionHeader = 0x0a0d0d0a, kByteOrderMagic = 0x1a2b3c4d;
inline constexpr std::uint32_t kInterfaceDescription = 1, kEnhancedPacket = 6;
inline constexpr std::size_t kBlockHeader = 8, kBlockEnd = 4, kPacketHeader = 20;  // bytes
inline constexpr std::uint16_t kLinkEthernet = 1, kLinkRawIp = 101;  // begins with the IP header
inline constexpr std::uint16_t kOptionEnd = 0, kOptionComment = 1;
inline constexpr std::uint16_t kOptionPacketFlags = 2;                  // bits 1..0 say inbound or outbound
inline constexpr std::uint16_t kOptionName = 2, kOptionResolution = 9;  // of an interface
inline constexpr std::uint16_t kOptionApplication = 4;                  // of a section

using Bytes = std::span<const std::uint8_t>;

inline std::uint32_t le32(Bytes bytes, std::size_t at) { return wire::load_le32(bytes.data() + at); }

// Goes through a file's blocks. What is none, because somebody was killed or its disk was full while it
// wrote, is passed over to the next that is whole, and counted.
class Blocks {
   public:
    explicit Blocks(Bytes content) : rest_(content) {}

    // Empty: there is no further whole one.
    Bytes next() {
        for (std::size_t at = 0; rest_.size() - at >= kBlockHeader + kBlockEnd; at++) {
            const std::size_t length = whole_at(at);
            if (length == 0 || (at > 0 && !is_known(le32(rest_, at)))) continue;
            gaps_ += at > 0;
            const Bytes block = rest_.subspan(at, length);
            rest_ = rest_.subspan(at + length);
            return block;
        }
        return {};
    }
    // Behind the last one: what is not whole yet.
    Bytes rest() const { return rest_; }
    unsigned gaps() const { return gaps_; }

   private:
    std::size_t whole_at(std::size_t at) const {
        const std::size_t length = le32(rest_, at + 4);
        if (length < kBlockHeader + kBlockEnd || length % 4 != 0 || length > rest_.size() - at) return 0;
        return le32(rest_, at + length - kBlockEnd) == length ? length : 0;
    }
    static bool is_known(std::uint32_t type) {
        return type == kSectionHeader || type == kInterfaceDescription || type == kEnhancedPacket;
    }

    Bytes rest_;
    unsigned gaps_ = 0;
};

}  // namespace verbena::link::pcapng
