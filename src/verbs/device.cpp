// The device list (ibv_get_device_list(3)): the daemon's table as the program sees it.

#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "base/call_fault.h"
#include "base/immortal.h"
#include "base/out_of_memory.h"
#include "base/reason.h"
#include "host/client.h"
#include "verbs/objects.h"
#include "verbs/private.h"

namespace verbena::verbs {
namespace {

std::mutex devices_lock;

// Never destroyed: programs keep the pointers.
std::vector<std::unique_ptr<Device>>& devices_so_far() {
    static Immortal<std::vector<std::unique_ptr<Device>>> devices;
    return *devices;
}

// The object of a table entry: the same one each time, also for a device that went and came back.
Device* device_object(unsigned slot, const host::Device& entry) {
    auto& known_devices = devices_so_far();
    for (auto& device : known_devices)
        if (device->index == entry.index && device->node_guid == entry.node_guid) {
            device->slot = slot;
            return device.get();
        }
    auto device = std::make_unique<Device>();
    device->slot = slot;
    device->index = entry.index;
    device->node_guid = entry.node_guid;
    ibv_device& base = device->base;
    base.node_type = IBV_NODE_CA;
    base.transport_type = IBV_TRANSPORT_IB;
    std::snprintf(base.name, sizeof base.name, "%s", entry.name.data());
    std::snprintf(base.dev_name, sizeof base.dev_name, "uverbs%u", entry.index);
    std::snprintf(base.dev_path, sizeof base.dev_path, "/sys/class/infiniband_verbs/uverbs%u", entry.index);
    std::snprintf(base.ibdev_path, sizeof base.ibdev_path, "/sys/class/infiniband/%s", entry.name.data());
    known_devices.push_back(std::move(device));
    return known_devices.back().get();
}

struct Free {
    void operator()(ibv_device** list) const { std::free(list); }
};

ibv_device** make_list(const host::DeviceTable* table, int& found) {
    const unsigned count = table ? std::min(table->count, host::kMaxDevices) : 0;
    std::unique_ptr<ibv_device*[], Free> made(
        static_cast<ibv_device**>(std::calloc(count + 1, sizeof(ibv_device*))));
    if (!made) throw std::bad_alloc();
    std::lock_guard lock(devices_lock);
    unsigned hidden = 0;
    for (unsigned slot = 0; slot < count; slot++) {
        host::Device entry;
        if (!host::read_device(*table, slot, entry)) continue;
        if (host::is_shown(entry))
            made[found++] = &device_object(slot, entry)->base;
        else
            hidden++;
    }
    if (found == 0 && hidden > 0)
        log(LogLevel::warn, "VERBENA_DEVICES=%s leaves none of %u devices", std::getenv("VERBENA_DEVICES"),
            hidden);
    return made.release();
}

ibv_device* find_device(const host::DeviceTable& table, std::uint32_t index) {
    std::lock_guard lock(devices_lock);
    for (unsigned slot = 0; slot < std::min(table.count, host::kMaxDevices); slot++) {
        host::Device entry;
        if (host::read_device(table, slot, entry) && entry.index == index)
            return &device_object(slot, entry)->base;
    }
    return fail_null(ENODEV, "device %u is not in the device list any more", index);
}

}  // namespace
}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

extern "C" {

struct ibv_device** ibv_get_device_list(int* num_devices) {
    if (const Fault fault{"ibv_get_device_list"}) return fault.null();
    Call call("ibv_get_device_list");
    if (num_devices) *num_devices = 0;
    const host::DeviceTable* table = host::devices();
    // Without a daemon there are no devices; programs take an empty list as "no adapter" and NULL as "no RDMA
    // at all".
    if (!table && errno == ENOMEM) return nullptr;
    int found = 0;
    ibv_device** list = unless_out_of_memory([&] { return make_list(table, found); });
    if (num_devices && list) *num_devices = found;
    return list;
}

struct ibv_device* verbena_device(uint32_t index) {
    const host::DeviceTable* table = host::devices();
    return table ? unless_out_of_memory([&] { return find_device(*table, index); }) : nullptr;
}

void ibv_free_device_list(struct ibv_device** list) { std::free(list); }

const char* ibv_get_device_name(struct ibv_device* device) { return device->name; }

__be64 ibv_get_device_guid(struct ibv_device* device) { return Device::of(device)->node_guid; }

// The kernel's number of a device, by which its netlink is asked; it knows none of ours.
int ibv_get_device_index(struct ibv_device*) { return -1; }

uint32_t verbena_device_index(struct ibv_device* device) { return Device::of(device)->index; }

}  // extern "C"
