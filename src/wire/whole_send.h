// A SEND of RC that is one packet, with an immediate or without: what most messages are, read and written
// without the tables that serve all opcodes.
#pragma once

#include <cstring>
#include <span>

#include "wire/bth.h"

namespace verbena::wire {

class WholeSend : public BthWords {
   public:
    bool has_immediate() const { return opcode() == Opcode::rc_send_only_immediate; }
    std::uint32_t immediate() const { return immediate_; }  // as Headers::immediate
    std::span<const std::uint8_t> payload() const { return payload_; }

    // False: it is something else, or nothing that parse() would take.
    bool parse(std::span<const std::uint8_t> udp_payload) {
        if (udp_payload.size() < kBthLength + kIcrcLength) [[unlikely]]
            return false;
        const std::uint8_t* bytes = udp_payload.data();
        read(bytes);
        std::size_t header = kBthLength;
        if (opcode() != Opcode::rc_send_only) {
            header += kImmDtLength;
            if (!has_immediate() || udp_payload.size() < header + kIcrcLength) [[unlikely]]
                return false;
            std::memcpy(&immediate_, bytes + kBthLength, sizeof immediate_);
        }
        const std::size_t padded = udp_payload.size() - header - kIcrcLength;
        if (version() != 0 || padded % 4 != 0 || padded < pad_count()) [[unlikely]]
            return false;
        payload_ = {bytes + header, padded - pad_count()};
        return true;
    }

   private:
    std::uint32_t immediate_ = 0;  // if it has one
    std::span<const std::uint8_t> payload_;
};

// Returns the length of the headers that it wrote, as emit() would have written them.
inline std::size_t emit_whole_send(const Bth& bth, std::uint32_t immediate, std::uint8_t* out) {
    emit_bth(bth, out);
    if (bth.opcode == Opcode::rc_send_only) return kBthLength;
    std::memcpy(out + kBthLength, &immediate, sizeof immediate);
    return kBthLength + kImmDtLength;
}

}  // namespace verbena::wire
