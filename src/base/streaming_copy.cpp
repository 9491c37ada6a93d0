#include "base/streaming_copy.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace verbena {

#if defined(__x86_64__)
void streaming_copy(std::uint8_t* to, const void* from, std::size_t length) {
    constexpr std::size_t kLine = 64, kWord = sizeof(__m128i);
    const auto* at = static_cast<const std::uint8_t*>(from);
    const std::size_t before = std::min(length, -reinterpret_cast<std::uintptr_t>(to) % kLine);
    std::memcpy(to, at, before);
    to += before;
    at += before;
    for (length -= before; length >= kLine; length -= kLine, to += kLine, at += kLine)
        for (std::size_t i = 0; i < kLine; i += kWord)
            _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                             _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + i)));
    std::memcpy(to, at, length);
    _mm_sfence();
}
#else
void streaming_copy(std::uint8_t* to, const void* from, std::size_t length) { std::memcpy(to, from, length); }
#endif

}  // namespace verbena
