// What the device says of itself (ibv_query_device(3)) and what the calls enforce: one set of numbers for
// both. What takes nothing but memory (kMaxCqs, kMaxSrqs, kMaxPds, kMaxAddressHandles) is not counted.
#pragma once

#include <cstdint>

namespace verbena::verbs {

inline constexpr int kMaxCqe = 1 << 22;
inline constexpr int kMaxCqs = 1 << 18;
inline constexpr int kMaxQps = 1 << 18;
inline constexpr int kMaxQpWr = 1 << 15;
inline constexpr int kMaxSrqs = 1 << 16;
inline constexpr int kMaxSrqWr = 1 << 15;
inline constexpr int kMaxSge = 32;
inline constexpr int kMaxInline = 1024;   // bytes
inline constexpr int kMaxRdAtomic = 128;  // outstanding READs and atomics of a queue pair, each direction
inline constexpr int kMaxRegions = 1 << 18;
inline constexpr int kMaxWindows = kMaxRegions - 1;         // of both together
inline constexpr std::uint64_t kMaxDeviceMemory = 1 << 20;  // bytes, each allocation
inline constexpr std::uint32_t kMaxCompletionCounters = 1 << 16;
inline constexpr int kMaxPds = 1 << 20;
inline constexpr int kMaxAddressHandles = 1 << 20;
inline constexpr std::uint32_t kMaxMessage = 1u << 31;  // bytes

inline constexpr std::uint64_t kClockKilohertz = 1'000'000;  // completion timestamps count nanoseconds

inline constexpr std::uint32_t kVendorId = 0x025642;  // a locally administered OUI: no vendor's
inline constexpr std::uint32_t kVendorPartId = 1;

}  // namespace verbena::verbs
