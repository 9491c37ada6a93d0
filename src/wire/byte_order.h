// Loads and stores of integers of a fixed byte order at any alignment. The protocol is big-endian throughout;
// only the ICRC is stored little-endian (IBA annex A17).
//
// Each, but those of 24 bits, is one load or store and a byte swap: bytes that are stored one by one are not
// always joined by the compiler, and a load of the whole waits for each of them. None checks a length: the
// caller has.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace verbena::wire {

namespace byte_order {

constexpr std::uint16_t swap(std::uint16_t v) { return __builtin_bswap16(v); }
constexpr std::uint32_t swap(std::uint32_t v) { return __builtin_bswap32(v); }
constexpr std::uint64_t swap(std::uint64_t v) { return __builtin_bswap64(v); }

template <class Int>
constexpr Int convert(Int v, std::endian order) {
    return order == std::endian::native ? v : swap(v);
}
template <class Int, std::endian kOrder = std::endian::big>
Int load(const std::uint8_t* p) {
    Int v;
    std::memcpy(&v, p, sizeof v);
    return convert(v, kOrder);
}
template <class Int, std::endian kOrder = std::endian::big>
void store(std::uint8_t* p, Int v) {
    v = convert(v, kOrder);
    std::memcpy(p, &v, sizeof v);
}

}  // namespace byte_order

inline std::uint16_t load_be16(const std::uint8_t* p) { return byte_order::load<std::uint16_t>(p); }
inline std::uint32_t load_be24(const std::uint8_t* p) {
    return std::uint32_t{p[0]} << 16 | std::uint32_t{p[1]} << 8 | p[2];
}
inline std::uint32_t load_be32(const std::uint8_t* p) { return byte_order::load<std::uint32_t>(p); }
inline std::uint64_t load_be64(const std::uint8_t* p) { return byte_order::load<std::uint64_t>(p); }
inline std::uint32_t load_le32(const std::uint8_t* p) {
    return byte_order::load<std::uint32_t, std::endian::little>(p);
}
inline std::uint64_t load_le64(const std::uint8_t* p) {
    return byte_order::load<std::uint64_t, std::endian::little>(p);
}

constexpr std::uint32_t to_be32(std::uint32_t v) { return byte_order::convert(v, std::endian::big); }

inline void store_be16(std::uint8_t* p, std::uint16_t v) { byte_order::store(p, v); }
// The high eight bits of `v` are dropped.
inline void store_be24(std::uint8_t* p, std::uint32_t v) {
    p[0] = static_cast<std::uint8_t>(v >> 16);
    p[1] = static_cast<std::uint8_t>(v >> 8);
    p[2] = static_cast<std::uint8_t>(v);
}
inline void store_be32(std::uint8_t* p, std::uint32_t v) { byte_order::store(p, v); }
inline void store_be64(std::uint8_t* p, std::uint64_t v) { byte_order::store(p, v); }
inline void store_le32(std::uint8_t* p, std::uint32_t v) {
    byte_order::store<std::uint32_t, std::endian::little>(p, v);
}
inline void store_le64(std::uint8_t* p, std::uint64_t v) {
    byte_order::store<std::uint64_t, std::endian::little>(p, v);
}

}  // namespace verbena::wire
