// Packet sequence numbers: 24 bits, wrapping (IBA 9.7.1). Two PSNs are comparable while they are less than
// half the circle apart, which the window of outstanding packets (at most 2^23) guarantees.
#pragma once

#include <cstdint>

namespace verbena::wire {

inline constexpr unsigned kPsnBits = 24;
inline constexpr std::uint32_t kPsnMask = (std::uint32_t{1} << kPsnBits) - 1;

// psn + n modulo 2^24; n may be "negative" (a wrapped unsigned).
constexpr std::uint32_t psn_add(std::uint32_t psn, std::uint32_t n) { return (psn + n) & kPsnMask; }
constexpr std::uint32_t psn_next(std::uint32_t psn) { return psn_add(psn, 1); }

// a - b as a signed distance in [-2^23, 2^23).
constexpr std::int32_t psn_diff(std::uint32_t a, std::uint32_t b) {
    return static_cast<std::int32_t>((a - b) << (32 - kPsnBits)) >> (32 - kPsnBits);
}

constexpr bool psn_less(std::uint32_t a, std::uint32_t b) { return psn_diff(a, b) < 0; }
constexpr bool psn_less_equal(std::uint32_t a, std::uint32_t b) { return psn_diff(a, b) <= 0; }

static_assert(psn_diff(0, kPsnMask) == 1 && psn_diff(0x800000, 0) == -0x800000);

}  // namespace verbena::wire
