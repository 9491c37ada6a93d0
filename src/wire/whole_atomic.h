// COMPARE & SWAP, FETCH & ADD and their answer over RC, read and written without the tables that serve all
// opcodes.
#pragma once

#include <span>

#include "wire/bth.h"
#include "wire/extended_headers.h"

namespace verbena::wire {

// parse() of both answers false for something else, and for what the general parse() would not take.
class WholeAtomic : public BthWords {
   public:
    const AtomicEth& eth() const { return eth_; }

    bool parse(std::span<const std::uint8_t> udp_payload) {
        if (udp_payload.size() != kBthLength + kAtomicEthLength + kIcrcLength) [[unlikely]]
            return false;
        read(udp_payload.data());
        eth_ = parse_atomic_eth(udp_payload.data() + kBthLength);
        return (opcode() == Opcode::rc_compare_swap || opcode() == Opcode::rc_fetch_add) && version() == 0 &&
               pad_count() == 0;
    }

   private:
    AtomicEth eth_;
};

class WholeAtomicAnswer : public BthWords {
   public:
    std::uint64_t original() const { return original_; }

    bool parse(std::span<const std::uint8_t> udp_payload) {
        if (udp_payload.size() != kBthLength + kAethLength + kAtomicAckLength + kIcrcLength) [[unlikely]]
            return false;
        read(udp_payload.data());
        original_ = load_be64(udp_payload.data() + kBthLength + kAethLength);
        return opcode() == Opcode::rc_atomic_ack && version() == 0 && pad_count() == 0;
    }

   private:
    std::uint64_t original_ = 0;
};

// These return the length of the headers that they wrote, as emit() would have written them.
inline std::size_t emit_whole_atomic(const Bth& bth, const AtomicEth& eth, std::uint8_t* out) {
    emit_bth(bth, out);
    emit_atomic_eth(eth, out + kBthLength);
    return kBthLength + kAtomicEthLength;
}

inline std::size_t emit_whole_atomic_answer(const Bth& bth, const Aeth& aeth, std::uint64_t original,
                                            std::uint8_t* out) {
    emit_bth(bth, out);
    emit_aeth(aeth, out + kBthLength);
    store_be64(out + kBthLength + kAethLength, original);
    return kBthLength + kAethLength + kAtomicAckLength;
}

}  // namespace verbena::wire
