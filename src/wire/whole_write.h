// An RDMA WRITE of RC that is one packet, read and written without the tables that serve all opcodes.
#pragma once

#include <span>

#include "wire/bth.h"
#include "wire/extended_headers.h"

namespace verbena::wire {

class WholeWrite : public BthWords {
   public:
    const Reth& reth() const { return reth_; }
    std::span<const std::uint8_t> payload() const { return payload_; }

    // False: it is something else, or nothing that parse() would take.
    bool parse(std::span<const std::uint8_t> udp_payload) {
        constexpr std::size_t kHeader = kBthLength + kRethLength;
        if (udp_payload.size() < kHeader + kIcrcLength) [[unlikely]]
            return false;
        const std::uint8_t* bytes = udp_payload.data();
        read(bytes);
        const std::size_t padded = udp_payload.size() - kHeader - kIcrcLength;
        if (opcode() != Opcode::rc_write_only || version() != 0 || padded % 4 != 0 || padded < pad_count())
            [[unlikely]]
            return false;
        reth_ = parse_reth(bytes + kBthLength);
        payload_ = {bytes + kHeader, padded - pad_count()};
        return true;
    }

   private:
    Reth reth_;
    std::span<const std::uint8_t> payload_;
};

// Returns the length of the headers that it wrote, as emit() would have written them.
inline std::size_t emit_whole_write(const Bth& bth, const Reth& reth, std::uint8_t* out) {
    emit_bth(bth, out);
    emit_reth(reth, out + kBthLength);
    return kBthLength + kRethLength;
}

}  // namespace verbena::wire
