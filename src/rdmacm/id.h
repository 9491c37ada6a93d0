// An rdma_cm_id with what the library keeps behind it, and an rdma_cm_event likewise.
//
// Thread safety: as librdmacm documents it. Calls on different ids run in parallel; on one id, event
// retrieval may run beside another call. `mutex` guards the queue pair pointer's life (destroying it against
// disconnecting it), the event counters, what the last event told, and the first use of a child.
#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "base/reason.h"
#include "base/shared_page.h"
#include "base/time.h"
#include "cm/types.h"
#include "rdmacm/known_addresses.h"

namespace verbena::rdmacm {

struct Channel;
struct Device;

// One multicast join of an id.
struct Group {
    std::uint64_t handle = 0;
    Gid address;  // as the program gave it
    void* context = nullptr;
    bool attach = true;  // send-only members do not receive
    bool attached = false;
    ibv_gid mgid{};
    std::uint16_t mlid = 0;
    std::uint64_t taken = 0;  // events handed to the program, and acknowledged; under the id's mutex
    std::uint64_t acknowledged = 0;
};

struct FreeAddrinfo {
    void operator()(rdma_addrinfo* info) const { rdma_freeaddrinfo(info); }
};
using Addrinfo = std::unique_ptr<rdma_addrinfo, FreeAddrinfo>;

struct Id : rdma_cm_id {
    Id() : rdma_cm_id{} {}
    ~Id();
    Id(const Id&) = delete;
    Id& operator=(const Id&) = delete;

    cm::IdNumber number = 0;  // the daemon's name for it
    std::uint32_t generation = 0;
    std::shared_ptr<Channel> home;
    bool synchronous = false;  // calls wait for their own event; `home` belongs to this id alone
    bool listens = false;
    std::atomic<bool> wants_route{false};  // ADDR_RESOLVED was its last event
    std::atomic<bool> may_connect{false};  // ROUTE_RESOLVED was
    std::atomic<bool> may_accept{false};   // CONNECT_REQUEST was
    std::atomic<bool> accepts{false};      // the daemon was told so, and may refuse
    // DISCONNECTED was read, and before that time no event comes but those that tell of a device.
    std::atomic<Time> quiet_until{0};
    std::atomic<bool> writes_events{false};  // itself, whenever
    std::atomic<bool> disconnects{false};    // the daemon was told so: it owes the peer no answer
    std::atomic<bool> was_connected{
        false};                   // ESTABLISHED was reported, of no datagram, and no DEVICE_REMOVAL
    bool connect_failed = false;  // CONNECT_ERROR was reported: what the peer answers is not shown any more
    std::atomic<bool> device_gone{false};  // DEVICE_REMOVAL was read
    std::atomic<bool> removal_told{false};
    std::atomic<bool> used{false};  // the program made a call on it
    Device* device = nullptr;

    // Limits of outstanding READs and atomics: what the REQ asked for, then what the connection uses.
    std::uint8_t responder_resources = 0;
    std::uint8_t initiator_depth = 0;
    ibv_ece local_ece{};
    ibv_ece remote_ece{};

    ibv_sa_path_rec path{};                      // route.path_rec points here
    std::unique_ptr<ibv_qp_init_attr> child_qp;  // rdma_create_ep: for rdma_get_request
    std::vector<std::uint8_t> connect_data;      // rdma_create_ep: goes before the private data

    decltype(cm::Event::transitions) transitions{};  // of the last event, for the queue pair; under `mutex`
    cm::IdInfo info;                                 // likewise
    KnownAddresses::Moment asked;  // likewise: for what it resolves to, if that is to be known
    bool always_asks = false;      // likewise

    // rdma_resolve_addrinfo: from the call until the answer is fetched.
    Addrinfo addrinfo;
    bool resolves_addrinfo = false;

    std::mutex mutex;
    std::condition_variable all_acknowledged;
    std::uint64_t taken = 0;  // events handed to the program
    std::uint64_t acknowledged = 0;
    std::list<std::shared_ptr<Group>> groups;
    unsigned qp_pins = 0;  // calls that work on `qp`
    std::condition_variable unpinned;
    std::condition_variable first_used;

    // Of a listener: the child of the last request that the program was given, and whether it ever left one
    // lying while the next one came.
    std::weak_ptr<Id> last_child;
    bool collects_requests = false;
    SharedPage
        backlog;  // a host::Backlog; if empty, each request that was read is told. Under the process's mutex
};

struct EventRecord : rdma_cm_event {
    EventRecord() : rdma_cm_event{} {}
    std::shared_ptr<Id> owner;  // the id that it counts for
    std::shared_ptr<Group> group;
    std::array<std::uint8_t, cm::kMaxPrivateData> private_data{};
    decltype(cm::Event::note) note{};
    std::string step_reason;  // why a step of the library itself failed, if that is what the event says

    void keep_reason(const char* reason) {
        try {
            step_reason = reason;
        } catch (const std::bad_alloc&) {  // the status says it
        }
    }
};

// What the daemon sends back with an id's events: its address.
inline std::uint64_t handle_of(const rdma_cm_id& id) { return reinterpret_cast<std::uintptr_t>(&id); }
inline const rdma_cm_id* id_of_handle(std::uint64_t handle) {
    return reinterpret_cast<const rdma_cm_id*>(static_cast<std::uintptr_t>(handle));
}

inline bool is_datagram(const rdma_cm_id& id) { return id.qp_type == IBV_QPT_UD; }

// A public call on an id, for as long as it runs: names the call in reasons and keeps the id's memory. False,
// with errno and a reason set: EINVAL, the pointer is no id of this process; EIO, the daemon that knew the id
// is gone.
class IdCall {
   public:
    enum class Daemon { must_live, may_be_gone };
    IdCall(const char* name, const rdma_cm_id* id, Daemon daemon = Daemon::must_live);
    explicit operator bool() const { return id_ != nullptr; }
    bool is_first() const { return first_; }  // on that id
    Id* operator->() const { return id_.get(); }
    Id& operator*() const { return *id_; }
    const std::shared_ptr<Id>& shared() const { return id_; }

   private:
    std::shared_ptr<Id> id_;
    Call call_;
    bool first_ = false;
};

// The library's half of an id whose daemon half exists; puts it into the process's table. nullptr: ENOMEM.
std::shared_ptr<Id> adopt_id(cm::IdNumber number, const std::shared_ptr<Channel>& home, void* context,
                             rdma_port_space port_space, ibv_qp_type qp_type);

// Asks the daemon for an id. nullptr with errno and a reason.
std::shared_ptr<Id> create_id(rdma_event_channel* channel, void* context, rdma_port_space port_space,
                              ibv_qp_type qp_type);

// rdma_destroy_id.
int destroy_id(const std::shared_ptr<Id>& id);

// Moves an id with its unread events to another channel. `taken`: how many events the program had been given
// when it moved.
int migrate_id(const std::shared_ptr<Id>& id, const std::shared_ptr<Channel>& target, std::uint64_t& taken);

// One event of the id was acknowledged (group: of that join).
void acknowledge(Id& id, Group* group);

// What an id's last event told is not asked for: the queue pair's next transitions, and whether a route may
// be resolved. A call that changes what that would be makes the library ask again; an option does so for
// good, as events that wait already know nothing of it.
void keep_told(Id& id, const cm::Event& event);
void forget_told(Id& id);
void always_ask(Id& id);

// What a synchronous id's call does last: waits for the event, keeps it in id.event, and turns its status
// into errno. 0 at once for an asynchronous id.
int complete(Id& id);

// Acknowledges id.event, if there is one.
void drop_event(Id& id);

}  // namespace verbena::rdmacm
