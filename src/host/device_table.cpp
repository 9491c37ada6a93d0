#include "host/device_table.h"

#include <fnmatch.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace verbena::host {
namespace {

// A daemon that died while it wrote leaves the sequence odd for ever.
constexpr unsigned kMaxAttempts = 10'000;

void set_name(Device& device, std::string_view name) {
    std::size_t size = std::min(name.size(), device.name.size() - 1);
    device.name = {};
    std::memcpy(device.name.data(), name.data(), size);
}

// The setting's entries one by one, without those that are empty.
template <class Entry>
void for_each_entry(std::string_view setting, Entry entry) {
    while (!setting.empty()) {
        const std::size_t comma = std::min(setting.find(','), setting.size());
        if (comma > 0) entry(setting.substr(0, comma));
        setting.remove_prefix(std::min(comma + 1, setting.size()));
    }
}

// `position`: how many devices come before it in the list; nullptr: it is not there.
void rename(Device& device, const unsigned* position, std::string_view setting) {
    std::string_view prefix, own;
    for_each_entry(setting, [&](std::string_view entry) {
        const std::size_t equals = entry.find('=');
        if (equals == std::string_view::npos)
            prefix = entry;
        else if (entry.substr(0, equals) == device.netdev.data())
            own = entry.substr(equals + 1);
    });
    if (!own.empty())
        set_name(device, own);
    else if (!prefix.empty() && position)
        set_name(device, std::string(prefix) + std::to_string(*position));
}

// What `look` finds while the daemon does not write, for which it may look several times; false, and what
// else it found is worth nothing, if the daemon writes for ever.
template <class Look>
bool look_undisturbed(const DeviceTable& table, Look look) {
    for (unsigned attempt = 0; attempt < kMaxAttempts; attempt++) {
        const std::uint64_t before = table.sequence.load(std::memory_order_acquire);
        if (before & 1) {
            sched_yield();
            continue;
        }
        const bool found = look();
        std::atomic_thread_fence(std::memory_order_acquire);
        if (table.sequence.load(std::memory_order_relaxed) == before) return found;
    }
    return false;
}

// `position`, where it is wanted: how many devices come before it in the list.
bool copy(const DeviceTable& table, unsigned slot, Device& out, unsigned* position) {
    if (slot >= kMaxDevices) return false;
    const bool found = look_undisturbed(table, [&] {
        // Most slots are free, and many ask for one device after the other.
        if (!table.devices[slot].present) return false;
        std::memcpy(&out, &table.devices[slot], sizeof out);
        if (!position) return true;
        *position = 0;
        for (unsigned i = 0; i < slot; i++)
            *position += table.devices[i].present && is_shown(table.devices[i]);
        return true;
    });
    if (found) out.name.back() = out.netdev.back() = '\0';
    return found;
}

bool has_address(const Device& device, const Gid& address) {
    const unsigned count = std::min(device.gid_count, kMaxGids);
    for (unsigned i = 0; i < count; i++)
        if (device.gid_valid[i] && device.gids[i] == address) return true;
    return false;
}

}  // namespace

bool copy_device(const DeviceTable& table, unsigned slot, Device& out) {
    return copy(table, slot, out, nullptr);
}

bool read_device(const DeviceTable& table, unsigned slot, Device& out) {
    const char* const setting = std::getenv("VERBENA_DEVICE");
    unsigned position = 0;
    if (!copy(table, slot, out, setting ? &position : nullptr)) return false;
    if (setting) rename(out, is_shown(out) ? &position : nullptr, setting);
    return true;
}

bool is_shown(const Device& device) {
    const char* const setting = std::getenv("VERBENA_DEVICES");
    if (!setting) return true;
    bool names_some = false, named = false, excluded = false;
    for_each_entry(setting, [&](std::string_view entry) {
        const bool excludes = entry.front() == '!';
        const std::string pattern(entry.substr(excludes));
        const bool matches = fnmatch(pattern.c_str(), device.netdev.data(), 0) == 0;
        names_some |= !excludes;
        (excludes ? excluded : named) |= matches;
    });
    return !excluded && (named || !names_some);
}

bool find_address(const DeviceTable& table, const Gid& address, std::uint32_t& index) {
    return look_undisturbed(table, [&] {
        for (const Device& device : table.devices) {
            if (!device.present || !has_address(device, address)) continue;
            index = device.index;
            return true;
        }
        return false;
    });
}

}  // namespace verbena::host
