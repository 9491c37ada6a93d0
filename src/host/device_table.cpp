#include "host/device_table.h"

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

// `position`: how many devices come before it in the list.
void rename(Device& device, unsigned position, std::string_view setting) {
    std::string_view prefix;
    while (!setting.empty()) {
        std::size_t comma = setting.find(',');
        std::string_view entry = setting.substr(0, comma);
        setting = comma == std::string_view::npos ? std::string_view{} : setting.substr(comma + 1);
        std::size_t equals = entry.find('=');
        if (equals == std::string_view::npos) {
            prefix = entry;
        } else if (entry.substr(0, equals) == device.netdev.data() && equals + 1 < entry.size()) {
            set_name(device, entry.substr(equals + 1));
            return;
        }
    }
    if (!prefix.empty()) set_name(device, std::string(prefix) + std::to_string(position));
}

}  // namespace

bool read_device(const DeviceTable& table, unsigned slot, Device& out) {
    if (slot >= kMaxDevices) return false;
    for (unsigned attempt = 0; attempt < kMaxAttempts; attempt++) {
        std::uint64_t before = table.sequence.load(std::memory_order_acquire);
        if (before & 1) {
            sched_yield();
            continue;
        }
        // Most slots are free, and many ask for one device after the other.
        const bool present = table.devices[slot].present;
        if (present) std::memcpy(&out, &table.devices[slot], sizeof out);
        unsigned position = 0;
        for (unsigned i = 0; i < slot; i++) position += table.devices[i].present;
        std::atomic_thread_fence(std::memory_order_acquire);
        if (table.sequence.load(std::memory_order_relaxed) != before) continue;
        if (!present) return false;
        out.name.back() = out.netdev.back() = '\0';
        if (const char* setting = std::getenv("VERBENA_DEVICE")) rename(out, position, setting);
        return true;
    }
    return false;
}

}  // namespace verbena::host
