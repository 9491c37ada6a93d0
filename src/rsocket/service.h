// The thread of a process that uses rsockets: it reads the events of all their connections from one event
// channel, so that connections are made, accepted and lost whatever the program does meanwhile, as a kernel
// does it for TCP; and it reads the UDP sockets beside datagram sockets, and sends keepalives. It sleeps
// unless there is something to do. Data never passes through it.
//
// Thread safety: all calls.
#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/time.h"

namespace verbena::rsocket {

// A copy of an event that has been acknowledged already.
struct CmEvent {
    rdma_cm_event_type type = RDMA_CM_EVENT_ADDR_RESOLVED;
    int status = 0;
    rdma_cm_id* id = nullptr;
    rdma_conn_param parameters{};  // private_data points into `data`
    std::array<std::uint8_t, 256> data{};
};

// What the service calls, always in its own thread, never two calls at once, and never with a lock of its
// own.
class ServiceClient {
   public:
    virtual ~ServiceClient() = default;
    // An event of an id of this client's; for a listener, also a request, whose new id it then owns.
    virtual void cm_event(const CmEvent&) {}
    // The watched descriptor is readable.
    virtual void descriptor_ready() {}
    // The time of wake_at() has come; the next time, or kNever.
    virtual Time timer(Time) { return kNever; }
};

class Service {
   public:
    // Of this process, started at the first call. nullptr with errno and a reason: no device, for example.
    static Service* get();

    // An id whose events go to the client. nullptr with errno and a reason.
    rdma_cm_id* create_id(const std::shared_ptr<ServiceClient>& client, rdma_port_space space);
    void adopt(rdma_cm_id* id, const std::shared_ptr<ServiceClient>& client);
    // No event of the id reaches its client any more. Not under a lock that the client takes in cm_event().
    void destroy_id(rdma_cm_id* id);

    int watch(int fd, const std::shared_ptr<ServiceClient>& client);  // an errno
    void unwatch(int fd);

    void wake_at(const std::shared_ptr<ServiceClient>& client, Time when);

   private:
    Service() = default;
    ~Service();
    friend std::default_delete<Service>;
    int start();
    static void* run(void* service);
    void loop();
    void turn();
    rdma_event_channel* open_channel();  // in `channels_`; nullptr with errno and a reason
    rdma_event_channel* living_channel();
    rdma_event_channel* channel_of(int fd) const;  // under mutex_
    void read_events(rdma_event_channel* channel);
    Time run_timers();
    void kick() const;

    int epoll_fd_ = -1;
    int kick_fd_ = -1;

    std::mutex opening_;  // of a channel; before mutex_
    std::mutex mutex_;
    // The last is the one in use. Those before are of daemons that have died, and of ids that are left.
    std::vector<rdma_event_channel*> channels_;
    std::unordered_map<rdma_cm_id*, std::weak_ptr<ServiceClient>> ids_;
    std::unordered_map<int, std::weak_ptr<ServiceClient>> descriptors_;
    struct Timer {
        std::weak_ptr<ServiceClient> client;
        Time when;
    };
    std::unordered_map<ServiceClient*, Timer> timers_;
};

}  // namespace verbena::rsocket
