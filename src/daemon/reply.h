// What a command is answered with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

namespace verbena::daemon {

// As much of `value` as the one who asked has room for.
template <class T>
void answer(std::span<std::uint8_t> reply, const T& value) {
    std::memcpy(reply.data(), static_cast<const void*>(&value), std::min(reply.size(), sizeof value));
}

}  // namespace verbena::daemon
