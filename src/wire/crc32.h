// CRC-32 (IEEE 802.3, reflected polynomial 0xEDB88320) as a bare running state: no initial or final
// complement, so that it can be fed in pieces and is linear in state and data: update(a ^ b, x ^ y) =
// update(a, x) ^ update(b, y).
//
// crc32_update() uses the fastest version that this processor has: carry-less multiplication on x86 and the
// CRC instructions on ARMv8, found when first called; otherwise shifts, or tables where a word has 32
// bits. All give the same result. Thread safety: pure.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::wire {

inline constexpr std::uint32_t kCrc32Polynomial = 0xedb88320;  // reflected: bit 31 is x^0

std::uint32_t crc32_update(std::uint32_t state, const void* data, std::size_t size);

// The same over twelve bytes and then `data`: a packet's first ones do not count as they are.
inline constexpr std::size_t kCrc32Head = 12;
std::uint32_t crc32_update_headed(std::uint32_t state, const std::uint8_t* head, const void* data,
                                  std::size_t size);

// By eight tables: for a few bytes.
std::uint32_t crc32_update_table(std::uint32_t state, const void* data, std::size_t size);

struct Crc32Version {
    std::uint32_t (*update)(std::uint32_t state, const void* data, std::size_t size);
    std::uint32_t (*update_headed)(std::uint32_t state, const std::uint8_t* head, const void* data,
                                   std::size_t size);
};

// A version that gains nothing by taking both at once.
template <auto kUpdate>
inline constexpr Crc32Version kCrc32InTwoSteps{
    kUpdate, [](std::uint32_t state, const std::uint8_t* head, const void* data, std::size_t size) {
        return kUpdate(kUpdate(state, head, kCrc32Head), data, size);
    }};

// The versions; nullptr if this processor (or this build) does not have it, which the first two always do.
const Crc32Version* crc32_table_version();
const Crc32Version* crc32_chorba_version();   // for 64 bits
const Crc32Version* crc32_pclmul_version();   // x86, 128 bits at a time
const Crc32Version* crc32_vpclmul_version();  // x86, 256 bits at a time
const Crc32Version* crc32_armv8_version();

// The state after `count` zero bytes, undone: the inverse of feeding zeros, in constant time.
std::uint32_t crc32_rewind_zeros(std::uint32_t state, std::size_t count);

}  // namespace verbena::wire
