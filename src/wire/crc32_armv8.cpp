// CRC-32 by the CRC instructions of ARMv8, eight bytes each. They compute this very polynomial, reflected.
#include "wire/crc32.h"

#if defined(__AARCH64EL__) && defined(__linux__)

#include <sys/auxv.h>

#include <cstring>

#ifndef HWCAP_CRC32
#define HWCAP_CRC32 (1 << 7)
#endif

namespace verbena::wire {
namespace {

// Named to the assembler here, so that the rest of the program keeps the architecture it is built for.
std::uint32_t update(std::uint32_t state, const void* data, std::size_t size) {
    const auto* p = static_cast<const std::uint8_t*>(data);
    for (; size >= 8; p += 8, size -= 8) {
        std::uint64_t word;
        std::memcpy(&word, p, sizeof word);
        asm(".arch_extension crc\n\tcrc32x %w0, %w0, %1" : "+r"(state) : "r"(word));
    }
    for (; size > 0; p++, size--)
        asm(".arch_extension crc\n\tcrc32b %w0, %w0, %w1" : "+r"(state) : "r"(unsigned{*p}));
    return state;
}

std::uint32_t update_headed(std::uint32_t state, const std::uint8_t* head, const void* data,
                            std::size_t size) {
    return update(update(state, head, kCrc32Head), data, size);
}

}  // namespace

const Crc32Version* crc32_armv8_version() {
    static constexpr Crc32Version kVersion{update, update_headed};
    return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0 ? &kVersion : nullptr;
}

}  // namespace verbena::wire

#else

const verbena::wire::Crc32Version* verbena::wire::crc32_armv8_version() { return nullptr; }

#endif
