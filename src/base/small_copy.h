// Headers and small payloads are copied in less than the time of a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace verbena {

// As memcpy(3), but that `from` may be null if `length` is 0.
inline void small_copy(std::uint8_t* to, const void* from, std::size_t length) {
    if (length < 8 || length > 16) {
        if (length > 0) std::memcpy(to, from, length);
        return;
    }
    std::uint64_t first, last;  // they overlap
    std::memcpy(&first, from, 8);
    std::memcpy(&last, static_cast<const std::uint8_t*>(from) + length - 8, 8);
    std::memcpy(to, &first, 8);
    std::memcpy(to + length - 8, &last, 8);
}

}  // namespace verbena
