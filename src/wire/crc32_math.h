// The arithmetic behind the CRC: polynomials over GF(2) modulo the CRC's own, reflected (bit 31 is the
// coefficient of x^0). Feeding a zero bit to a CRC multiplies its state by x; what follows is powers of x,
// worked out when compiling.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/crc32.h"

namespace verbena::wire::crc32_math {

inline constexpr std::uint32_t kOne = 0x80000000;

constexpr std::uint32_t times_x(std::uint32_t a) { return (a >> 1) ^ (kCrc32Polynomial & (0 - (a & 1))); }

// Undoes times_x: the polynomial has its bit 31 set and a >> 1 has not, which tells the two cases apart.
constexpr std::uint32_t divided_by_x(std::uint32_t a) {
    return (a & kOne) != 0 ? (a ^ kCrc32Polynomial) << 1 | 1 : a << 1;
}

constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
    std::uint32_t product = 0;
    for (int i = 0; i < 32; i++) {
        product ^= b & (0 - (a >> 31));
        a <<= 1;
        b = (b >> 1) ^ (kCrc32Polynomial & (0 - (b & 1)));
    }
    return product;
}

constexpr std::uint32_t power_of_x(unsigned exponent) {
    std::uint32_t a = kOne;
    for (unsigned i = 0; i < exponent; i++) a = times_x(a);
    return a;
}

// The polynomial itself and floor(x^64 / it), each of 33 bits, reflected (bit 32 is x^0): for Barrett's
// method.
inline constexpr std::uint64_t kPolynomial33 = std::uint64_t{kCrc32Polynomial} << 1 | 1;
inline constexpr std::uint64_t kReciprocal33 = [] {
    // Long division, highest power first. The remainder's 64 bits begin, reflected, with x^63.
    std::uint64_t quotient = 1, remainder = kPolynomial33 >> 1;  // after x^32 of the quotient
    for (unsigned place = 1; place <= 32; place++) {
        const bool fits = remainder & 1;
        remainder >>= 1;
        if (!fits) continue;
        quotient |= std::uint64_t{1} << place;
        remainder ^= kPolynomial33 >> 1;
    }
    return quotient;
}();

static_assert(divided_by_x(times_x(0x12345678)) == 0x12345678 &&
              times_x(divided_by_x(0x9abcdef1)) == 0x9abcdef1);
static_assert(multiply(power_of_x(40), power_of_x(50)) == power_of_x(90));

}  // namespace verbena::wire::crc32_math
