// The one Process object. It is never destroyed: a program may return from main while a thread of it is
// blocked in one of our calls, and nothing of that may be pulled away.
#include "rdmacm/process.h"

#include <atomic>

#include "base/own_pid.h"
#include "rdmacm/channel.h"
#include "rdmacm/daemon_page.h"
#include "rdmacm/device.h"
#include "rdmacm/id.h"
#include "rdmacm/id_numbers.h"
#include "rdmacm/known_addresses.h"
#include "rdmacm/lent_ends.h"

namespace verbena::rdmacm {

Process::Process()
    : pid(own_pid()),
      devices(new DeviceCache),
      numbers(new IdNumbers),
      lent_ends(new LentEnds),
      page(new DaemonPage),
      addresses(new KnownAddresses) {}
Process::~Process() = default;

Process& process() {
    static std::atomic<Process*> current{nullptr};
    Process* known = current.load(std::memory_order_acquire);
    while (!known || known->pid != own_pid()) {
        auto fresh = std::make_unique<Process>();
        if (current.compare_exchange_strong(known, fresh.get(), std::memory_order_acq_rel))
            return *fresh.release();
    }
    return *known;
}

std::shared_ptr<Channel> find_channel(const rdma_event_channel* channel) {
    Process& self = process();
    std::lock_guard lock(self.mutex);
    auto found = self.channels.find(channel);
    return found == self.channels.end() ? nullptr : found->second;
}

std::shared_ptr<Id> find_id(const rdma_cm_id* id) {
    Process& self = process();
    std::lock_guard lock(self.mutex);
    auto found = self.ids.find(id);
    return found == self.ids.end() ? nullptr : found->second;
}

bool forget_id(const rdma_cm_id* id) {
    Process& self = process();
    std::lock_guard lock(self.mutex);
    return self.ids.erase(id) != 0;
}

}  // namespace verbena::rdmacm
