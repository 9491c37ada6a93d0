// The device cache, rdma_get_devices and rdma_free_devices. Contexts stay open for the life of the process,
// as librdmacm documents: a program may go on using id->verbs after the id is gone.
#include "rdmacm/device.h"

#include <fcntl.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/reason.h"
#include "rdmacm/process.h"

namespace verbena::rdmacm {
namespace {

constexpr int kMaxPublicDepth = 0xff;

std::uint8_t depth(int device_limit) {
    return static_cast<std::uint8_t>(std::clamp(device_limit, 0, kMaxPublicDepth));
}

}  // namespace

DeviceCache::~DeviceCache() = default;

Device* DeviceCache::open(ibv_device* device) {
    ibv_context* verbs = ibv_open_device(device);
    if (!verbs) return nullptr;
    auto opened = std::make_unique<Device>();
    opened->index = static_cast<std::uint32_t>(ibv_get_device_index(device));
    opened->verbs = verbs;
    ibv_device_attr attributes{};
    if (int error = ibv_query_device(verbs, &attributes)) {
        ibv_close_device(verbs);
        return fail_null(error, "device %s does not answer ibv_query_device", ibv_get_device_name(device));
    }
    opened->max_responder_resources = depth(attributes.max_qp_rd_atom);
    opened->max_initiator_depth = depth(attributes.max_qp_init_rd_atom);
    devices_.push_back(std::move(opened));
    return devices_.back().get();
}

// Opens what ibv_get_device_list shows and the cache has not. The caller holds the mutex.
void DeviceCache::refresh() {
    ibv_device** list = ibv_get_device_list(nullptr);
    if (!list) return;
    for (ibv_device** entry = list; *entry; entry++) {
        auto index = static_cast<std::uint32_t>(ibv_get_device_index(*entry));
        bool known = std::any_of(devices_.begin(), devices_.end(),
                                 [index](const auto& device) { return device->index == index; });
        if (!known) open(*entry);
    }
    ibv_free_device_list(list);
}

Device* DeviceCache::find(std::uint32_t index) {
    std::lock_guard lock(mutex_);
    auto search = [this, index]() -> Device* {
        for (const auto& device : devices_)
            if (device->index == index) return device.get();
        return nullptr;
    };
    if (Device* device = search()) return device;
    ibv_device** list = ibv_get_device_list(nullptr);
    if (!list) return nullptr;
    Device* opened = nullptr;
    bool listed = false;
    for (ibv_device** entry = list; *entry && !listed; entry++)
        if (static_cast<std::uint32_t>(ibv_get_device_index(*entry)) == index) {
            listed = true;
            opened = open(*entry);
        }
    int error = errno;
    ibv_free_device_list(list);
    errno = error;
    if (!listed) fail(ENODEV, "device %u is not in the device list any more", index);
    return opened;
}

std::vector<Device*> DeviceCache::all() {
    std::lock_guard lock(mutex_);
    refresh();
    std::vector<Device*> every;
    for (const auto& device : devices_) every.push_back(device.get());
    return every;
}

Device* DeviceCache::of(const ibv_context* verbs) {
    std::lock_guard lock(mutex_);
    for (const auto& device : devices_)
        if (device->verbs == verbs) return device.get();
    return nullptr;
}

bool DeviceCache::acquire(Device& device) {
    std::lock_guard lock(mutex_);
    if (!device.pd) device.pd = ibv_alloc_pd(device.verbs);
    if (!device.pd) return false;
    device.users++;
    return true;
}

void DeviceCache::release(Device& device) {
    std::lock_guard lock(mutex_);
    if (--device.users > 0) return;
    // The program may have left regions or queue pairs in the domain; it then stays for the next id.
    if (device.xrcd && ibv_close_xrcd(device.xrcd) == 0) device.xrcd = nullptr;
    if (ibv_dealloc_pd(device.pd) == 0) device.pd = nullptr;
}

ibv_xrcd* DeviceCache::xrcd(Device& device) {
    std::lock_guard lock(mutex_);
    if (device.xrcd) return device.xrcd;
    ibv_xrcd_init_attr attributes{};
    attributes.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    attributes.fd = -1;
    attributes.oflags = O_CREAT;
    device.xrcd = ibv_open_xrcd(device.verbs, &attributes);
    return device.xrcd;
}

Device* acquire_device(std::uint32_t index) {
    DeviceCache& cache = *process().devices;
    Device* device = cache.find(index);
    return device && cache.acquire(*device) ? device : nullptr;
}

void release_device(Device* device) { process().devices->release(*device); }

}  // namespace verbena::rdmacm

using namespace verbena;
using namespace verbena::rdmacm;

extern "C" {

ibv_context** rdma_get_devices(int* num_devices) {
    Call call("rdma_get_devices");
    auto devices = process().devices->all();
    auto** list = static_cast<ibv_context**>(std::calloc(devices.size() + 1, sizeof(ibv_context*)));
    if (!list) return fail_null(ENOMEM, "no memory for a list of %zu devices", devices.size());
    for (std::size_t i = 0; i < devices.size(); i++) list[i] = devices[i]->verbs;
    if (num_devices) *num_devices = static_cast<int>(devices.size());
    return list;
}

void rdma_free_devices(ibv_context** list) { std::free(list); }
}
