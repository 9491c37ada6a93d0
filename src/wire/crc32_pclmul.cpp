// CRC-32 by carry-less multiplication, the x86 fast path: 128 bits of message are folded onto the 128 bits
// that lie a fixed distance behind them, since A * x^n is congruent to A_low * (x^(n+64) mod P) + A_high *
// (x^n mod P). Four independent folds hide the multiplier's latency; where the processor multiplies two pairs
// at once (VPCLMULQDQ), each is of 256 bits. The last 128 bits are reduced likewise, to 96 and 64, and to 32
// by Barrett's method; a tail of less than 16 bytes goes through the tables.
//
// What comes in front, a state or the header of a packet, is added to the first 128 bits: the state as it is,
// since it is what the bits before have left behind, and the header folded onto them.
//
// Everything is reflected: the low half of a register holds the higher powers, and the product of two
// reflected 64-bit polynomials comes out multiplied by x, which is why the constants are of one power less.
#include "wire/crc32.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <bit>

#include "wire/byte_order.h"
#include "wire/crc32_math.h"

namespace verbena::wire {
namespace {

constexpr std::size_t kMinimum = 64;       // below, the tables are as fast
constexpr std::size_t kWideMinimum = 256;  // below, the wide version gains nothing

// The pair of constants that folds over `bits`.
constexpr long long low_constant(unsigned bits) {
    return std::bit_cast<long long>(std::uint64_t{crc32_math::power_of_x(bits + 64 - 1)} << 32);
}
constexpr long long high_constant(unsigned bits) {
    return std::bit_cast<long long>(std::uint64_t{crc32_math::power_of_x(bits - 1)} << 32);
}

[[gnu::target("pclmul,sse2")]] inline __m128i load(const std::uint8_t* p) {
    return _mm_loadu_si128(static_cast<const __m128i*>(static_cast<const void*>(p)));
}

template <unsigned kBits>
[[gnu::target("pclmul,sse2")]] inline __m128i fold(__m128i a, __m128i next) {
    constexpr long long kLow = low_constant(kBits);
    constexpr long long kHigh = high_constant(kBits);
    const __m128i constants = _mm_set_epi64x(kHigh, kLow);
    __m128i low = _mm_clmulepi64_si128(a, constants, 0x00);
    __m128i high = _mm_clmulepi64_si128(a, constants, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

// The CRC of 16 bytes. First the upper half goes x^96 up, beside which the lower half times x^32 is of 96
// bits; then the upper 32 of these, which leaves 64; then Barrett: the quotient by the reciprocal, times the
// polynomial, taken off.
[[gnu::target("pclmul,sse2")]] inline std::uint32_t reduce(__m128i a) {
    constexpr long long kBy96 = std::bit_cast<long long>(std::uint64_t{crc32_math::power_of_x(96 - 1)} << 32);
    constexpr long long kBy64 = std::bit_cast<long long>(std::uint64_t{crc32_math::power_of_x(64 - 1)} << 32);
    const __m128i steps = _mm_set_epi64x(kBy64, kBy96);
    const __m128i lower = _mm_slli_si128(_mm_srli_si128(a, 8), 4);
    const __m128i b = _mm_xor_si128(_mm_clmulepi64_si128(a, steps, 0x00), lower);
    const __m128i c = _mm_xor_si128(_mm_clmulepi64_si128(b, steps, 0x10), b);
    const __m128i last = _mm_srli_si128(c, 8);
    const __m128i barrett = _mm_set_epi64x(static_cast<long long>(crc32_math::kPolynomial33),
                                           static_cast<long long>(crc32_math::kReciprocal33));
    const __m128i low_word = _mm_set_epi32(0, 0, 0, -1);
    const __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(last, low_word), barrett, 0x00);
    const __m128i taken = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_word), barrett, 0x10);
    return static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm_srli_si128(_mm_xor_si128(last, taken), 4)));
}

[[gnu::target("pclmul,sse2")]] inline std::uint32_t finish(__m128i a, const std::uint8_t* p,
                                                           std::size_t size) {
    for (; size >= 16; p += 16, size -= 16) a = fold<128>(a, load(p));
    const std::uint32_t state = reduce(a);
    return size == 0 ? state : crc32_update_table(state, p, size);
}

[[gnu::target("pclmul,sse2")]] inline __m128i in_front(std::uint32_t state) {
    return _mm_cvtsi32_si128(static_cast<int>(state));
}

// Zeros in front of the header change nothing.
[[gnu::target("pclmul,sse2")]] inline __m128i in_front(std::uint32_t state, const std::uint8_t* head) {
    static_assert(kCrc32Head == 12);
    const __m128i whole =
        _mm_set_epi32(static_cast<int>(load_le32(head + 8)), static_cast<int>(load_le32(head + 4)),
                      static_cast<int>(load_le32(head) ^ state), 0);
    return fold<128>(whole, _mm_setzero_si128());
}

// At least kMinimum bytes.
[[gnu::target("pclmul,sse2")]] inline std::uint32_t narrow(__m128i before, const std::uint8_t* p,
                                                           std::size_t size) {
    __m128i a = _mm_xor_si128(load(p), before);
    __m128i b = load(p + 16);
    __m128i c = load(p + 32);
    __m128i d = load(p + 48);
    for (p += 64, size -= 64; size >= 64; p += 64, size -= 64) {
        a = fold<512>(a, load(p));
        b = fold<512>(b, load(p + 16));
        c = fold<512>(c, load(p + 32));
        d = fold<512>(d, load(p + 48));
    }
    a = fold<128>(fold<128>(fold<128>(a, b), c), d);
    return finish(a, p, size);
}

[[gnu::target("pclmul,sse2")]] std::uint32_t update(std::uint32_t state, const void* data, std::size_t size) {
    if (size < kMinimum) return crc32_update_table(state, data, size);
    return narrow(in_front(state), static_cast<const std::uint8_t*>(data), size);
}

[[gnu::target("pclmul,sse2")]] std::uint32_t update_headed(std::uint32_t state, const std::uint8_t* head,
                                                           const void* data, std::size_t size) {
    if (size < kMinimum) return crc32_table_version()->update_headed(state, head, data, size);
    return narrow(in_front(state, head), static_cast<const std::uint8_t*>(data), size);
}

#define VERBENA_WIDE [[gnu::target("vpclmulqdq,pclmul,avx2")]]

VERBENA_WIDE inline __m256i load_wide(const std::uint8_t* p) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(static_cast<const void*>(p)));
}

template <unsigned kBits>
VERBENA_WIDE inline __m256i fold_wide(__m256i a, __m256i next) {
    constexpr long long kLow = low_constant(kBits);
    constexpr long long kHigh = high_constant(kBits);
    const __m256i constants = _mm256_set_epi64x(kHigh, kLow, kHigh, kLow);
    __m256i low = _mm256_clmulepi64_epi128(a, constants, 0x00);
    __m256i high = _mm256_clmulepi64_epi128(a, constants, 0x11);
    return _mm256_xor_si256(_mm256_xor_si256(low, high), next);
}

// At least kWideMinimum bytes.
VERBENA_WIDE inline std::uint32_t wide(__m128i before, const std::uint8_t* p, std::size_t size) {
    __m256i a = _mm256_xor_si256(load_wide(p), _mm256_zextsi128_si256(before));
    __m256i b = load_wide(p + 32);
    __m256i c = load_wide(p + 64);
    __m256i d = load_wide(p + 96);
    for (p += 128, size -= 128; size >= 128; p += 128, size -= 128) {
        a = fold_wide<1024>(a, load_wide(p));
        b = fold_wide<1024>(b, load_wide(p + 32));
        c = fold_wide<1024>(c, load_wide(p + 64));
        d = fold_wide<1024>(d, load_wide(p + 96));
    }
    a = fold_wide<256>(fold_wide<256>(fold_wide<256>(a, b), c), d);
    return finish(fold<128>(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1)), p, size);
}

VERBENA_WIDE std::uint32_t update_wide(std::uint32_t state, const void* data, std::size_t size) {
    if (size < kWideMinimum) return update(state, data, size);
    return wide(in_front(state), static_cast<const std::uint8_t*>(data), size);
}

VERBENA_WIDE std::uint32_t update_headed_wide(std::uint32_t state, const std::uint8_t* head, const void* data,
                                              std::size_t size) {
    if (size < kWideMinimum) return update_headed(state, head, data, size);
    return wide(in_front(state, head), static_cast<const std::uint8_t*>(data), size);
}

#undef VERBENA_WIDE

}  // namespace

const Crc32Version* crc32_pclmul_version() {
    static constexpr Crc32Version kVersion{update, update_headed};
    return __builtin_cpu_supports("pclmul") ? &kVersion : nullptr;
}

const Crc32Version* crc32_vpclmul_version() {
    static constexpr Crc32Version kVersion{update_wide, update_headed_wide};
    return __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx2") ? &kVersion : nullptr;
}

}  // namespace verbena::wire

#else

namespace verbena::wire {

const Crc32Version* crc32_pclmul_version() { return nullptr; }
const Crc32Version* crc32_vpclmul_version() { return nullptr; }

}  // namespace verbena::wire

#endif
