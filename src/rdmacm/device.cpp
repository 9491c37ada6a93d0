// The device cache, rdma_get_devices and rdma_free_devices. Contexts stay open for the life of the process,
// as librdmacm documents: a program may go on using id->verbs after the id is gone.
#include "rdmacm/device.h"

#include <fcntl.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/call_fault.h"
#include "base/out_of_memory.h"
#include "base/reason.h"
#include "base/stay_loaded.h"
#include "host/client.h"
#include "rdmacm/process.h"
#include "verbs/private.h"

namespace verbena::rdmacm {
namespace {

constexpr int kMaxPublicDepth = 0xff;

std::uint8_t depth(int device_limit) {
    return static_cast<std::uint8_t>(std::clamp(device_limit, 0, kMaxPublicDepth));
}

// ibv_get_device_list for as long as it is looked at; the device objects outlive it.
class DeviceList {
   public:
    DeviceList() : list_(ibv_get_device_list(&count_)) {}
    ~DeviceList() {
        int saved = errno;
        if (list_) ibv_free_device_list(list_);
        errno = saved;
    }
    DeviceList(const DeviceList&) = delete;
    DeviceList& operator=(const DeviceList&) = delete;
    explicit operator bool() const { return list_ != nullptr; }  // if not: errno
    ibv_device** begin() const { return list_; }
    ibv_device** end() const { return list_ + count_; }

   private:
    int count_ = 0;
    ibv_device** list_;
};

}  // namespace

DeviceCache::~DeviceCache() = default;

Device* DeviceCache::open(ibv_device* device) {
    auto opened = std::make_unique<Device>();
    devices_.reserve(devices_.size() + 1);
    ibv_context* verbs = ibv_open_device(device);
    if (!verbs) return nullptr;
    verbena_is_librarys(verbs);
    opened->index = verbena_device_index(device);
    opened->generation = host::generation();
    opened->verbs = verbs;
    ibv_device_attr attributes{};
    if (int error = ibv_query_device(verbs, &attributes)) {
        ibv_close_device(verbs);
        return fail_null(error, "device %s does not answer ibv_query_device", ibv_get_device_name(device));
    }
    opened->max_responder_resources = depth(attributes.max_qp_rd_atom);
    opened->max_initiator_depth = depth(attributes.max_qp_init_rd_atom);
    stay_loaded([] {});  // or the next one that is loaded would open them again
    devices_.push_back(std::move(opened));
    return devices_.back().get();
}

// The caller holds the mutex, here and in open().
Device* DeviceCache::known(std::uint32_t index) const {
    for (const auto& device : devices_)
        if (device->index == index && device->generation == host::generation()) return device.get();
    return nullptr;
}

Device* DeviceCache::find(std::uint32_t index) {
    std::lock_guard lock(mutex_);
    if (Device* device = known(index)) return device;
    ibv_device* const device = verbena_device(index);
    return device ? open(device) : nullptr;
}

int DeviceCache::all(std::vector<Device*>& every) {
    std::lock_guard lock(mutex_);
    DeviceList list;
    if (!list) return errno;
    for (ibv_device* entry : list) {
        Device* device = known(verbena_device_index(entry));
        if (!device) device = open(entry);
        if (device)
            every.push_back(device);
        else if (errno == ENOMEM)
            return ENOMEM;
    }
    return every.empty() ? fail(ENODEV, "there is no RDMA device") : 0;
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
    Device* device = unless_out_of_memory([&] { return cache.find(index); });
    return device && cache.acquire(*device) ? device : nullptr;
}

void release_device(Device* device) { process().devices->release(*device); }

}  // namespace verbena::rdmacm

using namespace verbena;
using namespace verbena::rdmacm;

extern "C" {

ibv_context** rdma_get_devices(int* num_devices) {
    if (const Fault fault{"rdma_get_devices"}) return fault.null();
    Call call("rdma_get_devices");
    if (num_devices) *num_devices = 0;
    return unless_out_of_memory([&]() -> ibv_context** {
        std::vector<Device*> devices;
        if (int error = process().devices->all(devices)) {
            errno = error;
            return nullptr;
        }
        auto** list = static_cast<ibv_context**>(std::calloc(devices.size() + 1, sizeof(ibv_context*)));
        if (!list) return fail_null(ENOMEM, "no memory for a list of %zu devices", devices.size());
        for (std::size_t i = 0; i < devices.size(); i++) list[i] = devices[i]->verbs;
        if (num_devices) *num_devices = static_cast<int>(devices.size());
        return list;
    });
}

void rdma_free_devices(ibv_context** list) { std::free(list); }
}
