// The devices of this host as the daemon sees them: one per network interface that is up and has an address.
// The table lies in a sealed memfd that the daemon writes and every program maps read-only.
//
// Slots: the interfaces in the order of their numbers, a later one in the first free slot; loopback is always
// in the last slot, so that programs that take the first device get a real one. A slot in the middle may be
// free.
//
// Reading: between two loads of `sequence` that are equal and even (the functions below do it).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/gid.h"

namespace verbena::host {

inline constexpr unsigned kMaxDevices = 64;
inline constexpr unsigned kMaxGids = 64;  // per device; the entry after the last one is always empty

struct Device {
    std::array<char, 64> name{};    // "verbena_eth0"
    std::array<char, 16> netdev{};  // "eth0"
    std::uint32_t index = 0;        // never reused while the daemon lives; cm::Route::device
    std::uint32_t interface_index = 0;
    std::uint64_t node_guid = 0;   // network byte order
    std::uint32_t mtu = 0;         // bytes, of the netdev
    std::uint32_t active_mtu = 0;  // ibv_mtu 1..5, of the RoCE payload that fits
    std::uint32_t speed = 0;       // Mbit/s; 0: unknown
    std::uint8_t present = 0;      // 0: the slot is free
    std::uint8_t active = 0;       // port state: 1 ACTIVE, 0 DOWN
    std::uint8_t loopback = 0;
    std::uint8_t reserved = 0;
    std::uint32_t gid_count = 0;  // one past the last used entry
    std::array<Gid, kMaxGids> gids{};
    std::array<std::uint8_t, kMaxGids> gid_valid{};
    std::uint64_t gid_generation = 0;  // changes with every change of gids

    bool operator==(const Device&) const = default;
};

struct DeviceTable {
    std::atomic<std::uint64_t> sequence;  // odd while the daemon writes
    std::uint32_t count;  // slots in use or once used; order is the order of ibv_get_device_list
    std::uint32_t reserved;
    std::array<Device, kMaxDevices> devices;
};

inline constexpr unsigned kLoopbackSlot = kMaxDevices - 1;

// What follows is false if there is no such device. Thread safety: all.

// As the daemon wrote it.
bool copy_device(const DeviceTable& table, unsigned slot, Device& out);
// With the name that this process wants (VERBENA_DEVICE):
//     mlx5_            every device: the prefix and its position in the list: mlx5_0, mlx5_1, ...
//     eth0=rxe0,...    the device of that netdev
bool read_device(const DeviceTable& table, unsigned slot, Device& out);
// Whether programs are to see it (VERBENA_DEVICES):
//     eth0,ib*         those of these network interfaces
//     !lo,!docker*     not those
bool is_shown(const Device& device);
// The index of the first one that has the address.
[[gnu::visibility("default")]] bool find_address(const DeviceTable& table, const Gid& address,
                                                 std::uint32_t& index);

}  // namespace verbena::host
