// The extended transport headers that the straight path knows, too (IBA 9.3).
#pragma once

#include "wire/bth.h"

namespace verbena::wire {

inline Reth parse_reth(const std::uint8_t* p) { return {load_be64(p), load_be32(p + 8), load_be32(p + 12)}; }

inline void emit_reth(const Reth& reth, std::uint8_t* p) {
    store_be64(p, reth.virtual_address);
    store_be32(p + 8, reth.rkey);
    store_be32(p + 12, reth.length);
}

inline AtomicEth parse_atomic_eth(const std::uint8_t* p) {
    return {load_be64(p), load_be32(p + 8), load_be64(p + 12), load_be64(p + 20)};
}

inline void emit_atomic_eth(const AtomicEth& eth, std::uint8_t* p) {
    store_be64(p, eth.virtual_address);
    store_be32(p + 8, eth.rkey);
    store_be64(p + 12, eth.swap_add);
    store_be64(p + 20, eth.compare);
}

inline void emit_aeth(const Aeth& aeth, std::uint8_t* p) {
    store_be32(p, std::uint32_t{aeth.syndrome} << 24 | (aeth.msn & kLow24));
}

}  // namespace verbena::wire
