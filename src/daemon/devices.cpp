#include "daemon/devices.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "host/port.h"

namespace verbena::daemon {
namespace {

// IP, UDP, BTH and the longest extended headers and the ICRC around a payload, as Linux counts them for RoCE,
// so that both choose the same path MTU on the same link: 40 + 8 + 12 + 4 + 28 + 4.
constexpr std::uint32_t kOverhead = 96;
constexpr std::uint8_t kSmallestCap = 3;  // 1024
constexpr std::size_t kUnaskedPackets = 128;
// Programs take 1 or 3 for the IPv4 address without looking, where Linux' rxe and adapters have it. So places
// up to there that no address needs repeat the first.
constexpr std::size_t kExpectedGids = 4;

bool is_ipv4_link_local(const Gid& gid) {
    return gid.is_ipv4() && gid.bytes[12] == 169 && gid.bytes[13] == 254;
}

int rank(const Address& address) {
    if (is_ipv4_link_local(address.gid)) return 3;
    if (address.gid.is_ipv4()) return 0;
    if (address.gid.is_link_local()) return 4;
    return address.temporary ? 2 : 1;
}

std::uint8_t largest_payload(std::size_t bytes) {
    std::uint8_t mtu = 1;
    while (mtu < 5 && std::size_t{256} << mtu <= bytes) mtu++;
    return mtu;
}

void copy_name(std::span<char> out, const std::string& name) {
    std::fill(out.begin(), out.end(), '\0');
    std::copy_n(name.begin(), std::min(name.size(), out.size() - 1), out.begin());
}

}  // namespace

std::uint8_t path_mtu_for(std::uint32_t mtu) {
    return largest_payload(mtu > kOverhead ? mtu - kOverhead : 0);
}

Devices::Devices(host::DeviceTable& table, std::uint64_t random, std::size_t receive_buffer)
    : table_(table), random_(random), receive_buffer_(receive_buffer) {}

host::Device* Devices::slot_for(const Interface& interface) {
    for (host::Device& device : devices_)
        if (device.present && device.interface_index == interface.index) return &device;
    host::Device* slot = nullptr;
    if (interface.loopback) {
        slot = &devices_[host::kLoopbackSlot];
    } else {
        auto free = std::find_if(devices_.begin(), devices_.begin() + host::kLoopbackSlot,
                                 [](const host::Device& device) { return !device.present; });
        if (free != devices_.begin() + host::kLoopbackSlot) slot = &*free;
    }
    if (!slot || slot->present) return nullptr;
    *slot = {};
    slot->index = next_index_++;
    slot->present = 1;
    return slot;
}

void Devices::describe(host::Device& device, const Interface& interface) const {
    copy_name(device.name, "verbena_" + interface.name);
    copy_name(device.netdev, interface.name);
    device.interface_index = interface.index;
    device.mtu = interface.mtu;
    device.loopback = interface.loopback;
    std::uint8_t mtu = path_mtu_for(interface.mtu);
    if (!interface.loopback)
        mtu = std::min(mtu, std::max(kSmallestCap, largest_payload(receive_buffer_ / kUnaskedPackets)));
    device.active_mtu = mtu;
    device.speed = interface.speed;
    device.active = interface.up && interface.running && device.gid_count > 0;
    device.node_guid = interface.has_mac ? host::eui64(interface.mac) : random_ + interface.index;
}

void Devices::assign_gids(host::Device& device, std::span<const Address> sorted, bool may_reorder) const {
    const auto gids_before = device.gids;
    const auto valid_before = device.gid_valid;
    auto lives = [&](const Gid& gid) {
        return std::any_of(sorted.begin(), sorted.end(),
                           [&](const Address& address) { return address.gid == gid; });
    };
    auto repeats = [&](std::size_t i) {
        return i > 0 && i < kExpectedGids && device.gids[i] == device.gids[0];
    };
    for (std::size_t i = host::kMaxGids; i-- > 0;)
        if (may_reorder || repeats(i) || (device.gid_valid[i] && !lives(device.gids[i]))) {
            device.gids[i] = {};
            device.gid_valid[i] = 0;
        }
    for (const Address& address : sorted) {
        std::size_t free = host::kMaxGids;
        bool known = false;
        for (std::size_t i = host::kMaxGids - 1; i-- > 0;) {  // the last entry stays empty
            if (!device.gid_valid[i]) free = i;
            known = known || (device.gid_valid[i] && device.gids[i] == address.gid);
        }
        if (known || free == host::kMaxGids) continue;
        device.gids[free] = address.gid;
        device.gid_valid[free] = 1;
    }
    for (std::size_t i = 1; i < kExpectedGids && device.gid_valid[0]; i++)
        if (!std::exchange(device.gid_valid[i], std::uint8_t{1})) device.gids[i] = device.gids[0];
    device.gid_count = 0;
    for (std::uint32_t i = 0; i < host::kMaxGids; i++)
        if (device.gid_valid[i]) device.gid_count = i + 1;
    if (device.gids != gids_before || device.gid_valid != valid_before) device.gid_generation++;
}

std::vector<std::uint32_t> Devices::update(std::span<const Interface> interfaces,
                                           std::span<const Address> addresses, bool may_reorder) {
    interfaces_.assign(interfaces.begin(), interfaces.end());
    std::sort(interfaces_.begin(), interfaces_.end(),
              [](const Interface& a, const Interface& b) { return a.index < b.index; });
    addresses_.assign(addresses.begin(), addresses.end());
    std::stable_sort(addresses_.begin(), addresses_.end(),
                     [](const Address& a, const Address& b) { return rank(a) < rank(b); });

    const auto before = devices_;
    std::vector<std::uint32_t> gone;
    for (host::Device& device : devices_)
        if (device.present && !interface(device.interface_index)) {
            gone.push_back(device.index);
            device = {};
        }
    for (const Interface& each : interfaces_) {
        std::vector<Address> own;
        std::copy_if(
            addresses_.begin(), addresses_.end(), std::back_inserter(own), [&](const Address& address) {
                return address.interface_index == each.index && address.usable && !address.gid.is_multicast();
            });
        const bool eligible = each.up && !own.empty();
        const host::Device* known = by_interface(each.index);
        if (!eligible && (!known || may_reorder)) {
            if (known) {
                gone.push_back(known->index);
                devices_[static_cast<std::size_t>(known - devices_.data())] = {};
            }
            continue;
        }
        if (host::Device* device = slot_for(each)) {
            assign_gids(*device, own, may_reorder);
            describe(*device, each);
        }
    }
    moved_.clear();
    for (std::size_t i = 0; i < devices_.size(); i++)  // the node GUID is made of the hardware address
        if (devices_[i].present && before[i].present && devices_[i].index == before[i].index &&
            devices_[i].node_guid != before[i].node_guid)
            moved_.push_back(devices_[i].index);
    changed_ = devices_ != before;
    present_.clear();
    for (const host::Device& device : devices_)
        if (device.present) present_.push_back(&device);
    if (changed_) publish();
    return gone;
}

void Devices::publish() {
    // Single writer. Readers retry while the sequence is odd or has changed.
    const std::uint64_t sequence = table_.sequence.load(std::memory_order_relaxed);
    table_.sequence.store(sequence + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    table_.count = 0;
    for (std::uint32_t i = 0; i < host::kMaxDevices; i++) {
        if (devices_[i].present) table_.count = i + 1;
        table_.devices[i] = devices_[i];
    }
    table_.sequence.store(sequence + 2, std::memory_order_release);
}

Devices::Place Devices::find(const Gid& gid, std::uint32_t interface_index) const {
    for (const host::Device* device : present_) {
        if (interface_index && device->interface_index != interface_index) continue;
        for (std::uint16_t i = 0; i < device->gid_count; i++)
            if (device->gid_valid[i] && device->gids[i] == gid) return {device, i};
    }
    return {};
}

const host::Device* Devices::by_index(std::uint32_t index) const {
    for (const host::Device* device : present_)
        if (device->index == index) return device;
    return nullptr;
}

const host::Device* Devices::by_interface(std::uint32_t interface_index) const {
    for (const host::Device& device : devices_)
        if (device.present && device.interface_index == interface_index) return &device;
    return nullptr;
}

const host::Device* Devices::loopback() const {
    const host::Device& device = devices_[host::kLoopbackSlot];
    return device.present ? &device : nullptr;
}

std::uint32_t Devices::count() const { return static_cast<std::uint32_t>(present_.size()); }

bool Devices::is_own(const Gid& gid, std::uint32_t interface_index) const {
    return std::any_of(addresses_.begin(), addresses_.end(), [&](const Address& address) {
        return address.gid == gid && (!interface_index || address.interface_index == interface_index);
    });
}

const Interface* Devices::interface(std::uint32_t index) const {
    auto found = std::find_if(interfaces_.begin(), interfaces_.end(),
                              [&](const Interface& each) { return each.index == index; });
    return found == interfaces_.end() ? nullptr : &*found;
}

}  // namespace verbena::daemon
