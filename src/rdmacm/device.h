// The devices as librdmacm sees them: opened once per process and shared by all ids (id->verbs is the same
// pointer for every id of a device), each with one protection domain while some id uses it.
//
// Thread safety: all functions.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace verbena::rdmacm {

struct Device {
    std::uint32_t index = 0;  // cm::Route::device
    std::uint32_t generation =
        0;  // of the daemon whose device it is; its successor's has a context of its own
    ibv_context* verbs = nullptr;
    ibv_pd* pd = nullptr;      // while users > 0
    ibv_xrcd* xrcd = nullptr;  // opened on first need
    unsigned users = 0;
    std::uint8_t max_responder_resources = 0;  // READs and atomics at once that the device serves
    std::uint8_t max_initiator_depth = 0;      // and has outstanding
};

class DeviceCache {
   public:
    DeviceCache() = default;
    ~DeviceCache();
    // The open device, or nullptr with errno and a reason (ENODEV: it is gone).
    Device* find(std::uint32_t index);
    // Every device of the daemon that runs now, opened. 0, or an errno with a reason.
    int all(std::vector<Device*>& every);

    bool acquire(Device& device);  // counts a user; false with errno and a reason: no protection domain
    void release(Device& device);
    ibv_xrcd* xrcd(Device& device);

   private:
    Device* known(std::uint32_t index) const;
    Device* open(ibv_device* device);

    std::mutex mutex_;
    std::vector<std::unique_ptr<Device>> devices_;
};

// Of the calling process.
Device* acquire_device(std::uint32_t index);
void release_device(Device* device);

}  // namespace verbena::rdmacm
