// The device table's writer: which interfaces become devices, under which slot, with which GIDs in which
// order.
//
// A device appears with an interface that is up and has an address. As long as a program is connected nothing
// moves: GIDs keep their index while their address lives, new ones take the first free entry, and an
// interface that goes down or loses its addresses stays as a device whose port is down. When nobody is
// connected (`may_reorder`) the table is made anew in its canonical order. A device goes when its interface
// is gone.
//
// GID order: IPv4, global IPv6, temporary IPv6, link-local ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/netlink.h"
#include "host/device_table.h"

namespace verbena::daemon {

// The IBA path MTU (1 = 256 ... 5 = 4096) whose largest packet fits into `mtu` bytes of IP packet.
std::uint8_t path_mtu_for(std::uint32_t mtu);

class Devices {
   public:
    // `random` makes the node GUIDs of interfaces without a MAC address. `receive_buffer`: of a program's
    // queue, in bytes; up to 128 packets arrive unasked (Linux rxe's window), so it bounds the path MTU, down
    // to 1024.
    Devices(host::DeviceTable& table, std::uint64_t random, std::size_t receive_buffer);
    Devices(const Devices&) = delete;
    Devices& operator=(const Devices&) = delete;

    // Returns the indices of devices that are gone. changed(): whether the table is another one since.
    std::vector<std::uint32_t> update(std::span<const Interface> interfaces,
                                      std::span<const Address> addresses, bool may_reorder);

    bool changed() const { return changed_; }
    // The indices of devices whose interface got another hardware address with the last update.
    std::vector<std::uint32_t> moved() const { return moved_; }

    struct Place {
        const host::Device* device = nullptr;
        std::uint16_t gid_index = 0;
    };
    // The device with that GID; `interface_index` 0: any. No device: nullptr.
    Place find(const Gid& gid, std::uint32_t interface_index = 0) const;
    const host::Device* by_index(std::uint32_t index) const;
    const host::Device* by_interface(std::uint32_t interface_index) const;
    const host::Device* loopback() const;
    std::uint32_t count() const;

    // Whether this host has the address, on a device or not.
    bool is_own(const Gid& gid, std::uint32_t interface_index = 0) const;
    const Interface* interface(std::uint32_t index) const;

   private:
    host::Device* slot_for(const Interface& interface);
    void describe(host::Device& device, const Interface& interface) const;
    void assign_gids(host::Device& device, std::span<const Address> sorted, bool may_reorder) const;
    void publish();

    host::DeviceTable& table_;
    const std::uint64_t random_;
    const std::size_t receive_buffer_;
    std::uint32_t next_index_ = 0;
    std::array<host::Device, host::kMaxDevices> devices_{};  // what the table holds
    // Those that are there, since the last update(), which has to ask the table itself (by_interface()).
    std::vector<const host::Device*> present_;
    bool changed_ = false;
    std::vector<std::uint32_t> moved_;
    std::vector<Interface> interfaces_;
    std::vector<Address> addresses_;
};

}  // namespace verbena::daemon
