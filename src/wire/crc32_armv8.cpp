// CRC-32 by the CRC instructions of ARMv8, eight bytes each. They compute this very polynomial, reflected.
#include "wire/crc32.h"

#if defined(__AARCH64EL__) && defined(__linux__)

#include <sys/auxv.h>

#include "wire/byte_order.h"

#ifndef HWCAP_CRC32
#define HWCAP_CRC32 (1 << 7)
#endif

namespace verbena::wire {
namespace {

// Named to the assembler here, so that the rest of the program keeps the architecture it is built for.
std::uint32_t update_armv8(std::uint32_t state, const void* data, std::size_t size) {
    const auto* p = static_cast<const std::uint8_t*>(data);
    for (; size >= 8; p += 8, size -= 8)
        asm(".arch_extension crc\n\tcrc32x %w0, %w0, %1" : "+r"(state) : "r"(load_le64(p)));
    for (; size > 0; p++, size--)
        asm(".arch_extension crc\n\tcrc32b %w0, %w0, %w1" : "+r"(state) : "r"(unsigned{*p}));
    return state;
}

}  // namespace

const Crc32Version* crc32_armv8_version() {
    return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0 ? &kCrc32InTwoSteps<update_armv8> : nullptr;
}

}  // namespace verbena::wire

#else

const verbena::wire::Crc32Version* verbena::wire::crc32_armv8_version() { return nullptr; }

#endif
