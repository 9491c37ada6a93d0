// CRC-32 by carry-less multiplication, the x86 fast path: 128 bits of message are folded onto the 128 bits
// that lie a fixed distance behind them, since A * x^n is congruent to A_low * (x^(n+64) mod P) + A_high *
// (x^n mod P). Four independent folds of 512 bits distance hide the multiplier's latency; the last 128 bits
// go through the tables.
//
// Everything is reflected: the low half of a register holds the higher powers, and the product of two
// reflected 64-bit polynomials comes out multiplied by x, which is why the constants are of one power less.
#include "wire/crc32.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include "wire/crc32_math.h"

namespace verbena::wire {
namespace {

constexpr std::size_t kMinimum = 64;  // below, the tables are as fast

constexpr long long fold_constant(unsigned power) {
    return static_cast<long long>(std::uint64_t{crc32_math::power_of_x(power - 1)} << 32);
}

[[gnu::target("pclmul,sse2")]] inline __m128i load(const std::uint8_t* p) {
    return _mm_loadu_si128(static_cast<const __m128i*>(static_cast<const void*>(p)));
}

[[gnu::target("pclmul,sse2")]] inline __m128i fold(__m128i a, __m128i constants, __m128i next) {
    __m128i low = _mm_clmulepi64_si128(a, constants, 0x00);
    __m128i high = _mm_clmulepi64_si128(a, constants, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

[[gnu::target("pclmul,sse2")]] std::uint32_t update(std::uint32_t state, const void* data, std::size_t size) {
    if (size < kMinimum) return crc32_update_table(state, data, size);
    const auto* p = static_cast<const std::uint8_t*>(data);
    const __m128i by_512 = _mm_set_epi64x(fold_constant(512), fold_constant(512 + 64));
    const __m128i by_128 = _mm_set_epi64x(fold_constant(128), fold_constant(128 + 64));

    __m128i a = _mm_xor_si128(load(p), _mm_cvtsi32_si128(static_cast<int>(state)));
    __m128i b = load(p + 16);
    __m128i c = load(p + 32);
    __m128i d = load(p + 48);
    for (p += 64, size -= 64; size >= 64; p += 64, size -= 64) {
        a = fold(a, by_512, load(p));
        b = fold(b, by_512, load(p + 16));
        c = fold(c, by_512, load(p + 32));
        d = fold(d, by_512, load(p + 48));
    }
    a = fold(a, by_128, b);
    a = fold(a, by_128, c);
    a = fold(a, by_128, d);
    for (; size >= 16; p += 16, size -= 16) a = fold(a, by_128, load(p));

    alignas(16) std::uint8_t rest[16];
    _mm_store_si128(static_cast<__m128i*>(static_cast<void*>(rest)), a);
    return crc32_update_table(crc32_update_table(0, rest, sizeof rest), p, size);
}

}  // namespace

Crc32Update crc32_pclmul_version() { return __builtin_cpu_supports("pclmul") ? update : nullptr; }

}  // namespace verbena::wire

#else

verbena::wire::Crc32Update verbena::wire::crc32_pclmul_version() { return nullptr; }

#endif
