// Access rights, with the values of enum ibv_access_flags.
#pragma once

#include <cstdint>

namespace verbena::memory {

using Access = std::uint32_t;

inline constexpr Access kLocalWrite = 1u << 0;
inline constexpr Access kRemoteWrite = 1u << 1;
inline constexpr Access kRemoteRead = 1u << 2;
inline constexpr Access kRemoteAtomic = 1u << 3;
inline constexpr Access kWindowBind = 1u << 4;
inline constexpr Access kZeroBased = 1u << 5;
inline constexpr Access kOnDemand = 1u << 6;
inline constexpr Access kHugeTlb = 1u << 7;
inline constexpr Access kFlushGlobal = 1u << 8;
inline constexpr Access kFlushPersistent = 1u << 9;
inline constexpr Access kOptionalFirst =
    1u << 20;  // bits 20..29 are hints that may be ignored (relaxed ordering ...)
inline constexpr Access kOptionalMask = 0x3ff00000;

inline constexpr Access kAllRequired = (1u << 10) - 1;

}  // namespace verbena::memory
