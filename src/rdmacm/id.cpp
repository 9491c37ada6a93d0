// The life of an id: rdma_create_id, rdma_destroy_id, rdma_migrate_id; what its last event told; and waiting,
// for acknowledgements and for a synchronous call's event.
#include "rdmacm/id.h"

#include <cerrno>
#include <chrono>
#include <new>

#include "base/call_fault.h"
#include "base/out_of_memory.h"
#include "host/client.h"
#include "rdmacm/channel.h"
#include "rdmacm/daemon_call.h"
#include "rdmacm/daemon_page.h"
#include "rdmacm/device.h"
#include "rdmacm/id_numbers.h"
#include "rdmacm/process.h"
#include "verbs/private.h"

namespace verbena::rdmacm {
namespace {

// A wait for acknowledgements that lasts this long is worth a line: programs hang here when they forget one.
constexpr std::chrono::seconds kPatience{1};

// Blocks until the program has acknowledged as many events of the id as it was given.
void wait_for_acknowledgements(Id& id, std::uint64_t taken, const char* caller) {
    std::unique_lock lock(id.mutex);
    auto done = [&id, taken] { return id.acknowledged >= taken; };
    if (id.all_acknowledged.wait_for(lock, kPatience, done)) return;
    log(LogLevel::warn,
        "%s(id %u) waits for %llu event(s) that rdma_get_cm_event returned and nobody acknowledged", caller,
        id.number, static_cast<unsigned long long>(taken - id.acknowledged));
    id.all_acknowledged.wait(lock, done);
}

std::uint64_t events_taken(Id& id) {
    std::lock_guard lock(id.mutex);
    return id.taken;
}

// While the channel's mutex is held, so that nobody reads.
std::uint64_t unread(Id& id, std::uint64_t delivered) {
    const std::uint64_t taken = events_taken(id);
    return delivered > taken ? delivered - taken : 0;
}

// Under the id's mutex.
void forget(Id& id) {
    id.wants_route = id.may_connect = id.may_accept = false;
    id.transitions = {};
    id.asked = {};
}

// No event of the id lies unread, and none comes before the daemon has heard what it is told now. (If the
// device goes in that very moment, the channel is readable once for nothing.)
bool is_quiet(const Id& id) {
    constexpr Duration kOnTheWay = 100 * kMillisecond;
    constexpr Duration kLongest = 20 * kSecond;  // else the daemon's clock is another (time_namespaces(7))
    if (id.writes_events) return false;
    const auto now = std::chrono::steady_clock::now().time_since_epoch();  // CLOCK_MONOTONIC
    const Duration left = id.quiet_until - std::chrono::nanoseconds(now).count();
    return left > kOnTheWay && left < kLongest;
}

// Events that were not read are gone with the id, and must not keep the descriptor readable.
void drop_unread(Id& id, std::uint64_t delivered) {
    std::lock_guard lock(id.home->mutex);
    if (!id.home->closed) extract_events(*id.home, id.number, unread(id, delivered));
}

bool daemon_knows(const Id& id) { return id.generation == host::generation(); }

const char* port_space_text(rdma_port_space port_space) {
    switch (port_space) {
        case RDMA_PS_IPOIB:
            return "RDMA_PS_IPOIB";
        case RDMA_PS_TCP:
            return "RDMA_PS_TCP";
        case RDMA_PS_UDP:
            return "RDMA_PS_UDP";
        case RDMA_PS_IB:
            return "RDMA_PS_IB";
    }
    return nullptr;
}

}  // namespace

IdCall::IdCall(const char* name, const rdma_cm_id* id, Daemon daemon)
    : id_(find_id(id)), call_(name, "id", id_ ? id_->number : 0) {
    if (!id_) {
        fail(EINVAL, "rdma_cm_id %p is none of this process: not created, destroyed, or inherited by fork",
             static_cast<const void*>(id));
    } else if (daemon == Daemon::must_live && (id_->removal_told || !daemon_knows(*id_))) {
        fail(EIO, "verbenad has ended since this id was made; only rdma_destroy_id works on it");
        id_.reset();
    } else if (daemon == Daemon::must_live && id_->home->closed) {
        fail(EBADF, "the id's event channel was destroyed, and the id with it");
        id_.reset();
    }
    if (!id_) return;
    if (!id_->used) {
        std::lock_guard lock(id_->mutex);
        first_ = !id_->used.exchange(true);
        id_->first_used.notify_all();
    }
    verbena_step_aside();
}

Id::~Id() {
    const int before = errno;  // of the call that drops the last reference
    if (device) release_device(device);
    errno = before;
}

std::shared_ptr<Id> adopt_id(cm::IdNumber number, const std::shared_ptr<Channel>& home, void* context,
                             rdma_port_space port_space, ibv_qp_type qp_type) {
    auto id = std::make_shared<Id>();
    id->number = number;
    id->generation = home->generation;
    id->home = home;
    id->channel = home.get();
    id->context = context;
    id->ps = port_space;
    id->qp_type = qp_type;
    Process& self = process();
    std::lock_guard lock(self.mutex);
    self.ids.emplace(id.get(), id);
    return id;
}

std::shared_ptr<Id> create_id(rdma_event_channel* channel, void* context, rdma_port_space port_space,
                              ibv_qp_type qp_type) {
    if (!port_space_text(port_space))
        return fail_null(EINVAL, "port space %#x is none of RDMA_PS_TCP, _UDP, _IPOIB, _IB",
                         static_cast<unsigned>(port_space));
    std::shared_ptr<Channel> home = channel ? find_channel(channel) : unless_out_of_memory(open_channel);
    if (!home) {
        if (!channel) return nullptr;
        return fail_null(EINVAL, "event channel %p is none of this process: destroyed, or inherited by fork",
                         static_cast<void*>(channel));
    }
    if (home->generation != host::generation())
        return fail_null(EIO, "verbenad has ended since this event channel was made");

    // The id is in our table before the daemon can send an event for it, but nobody knows its address yet.
    const auto adopt = [&] { return adopt_id(0, home, context, port_space, qp_type); };
    std::shared_ptr<Id> id = unless_out_of_memory(adopt);
    if (!id) {
        if (!channel) close_channel(home);
        return nullptr;
    }
    host::CreateIdRequest request;
    request.file = home->file;
    request.port_space = static_cast<cm::PortSpace>(port_space);
    request.qp_type = static_cast<cm::QpType>(qp_type);
    request.user_handle = handle_of(*id);
    if (process().numbers->create(request, home->generation, id->number) != 0) {
        const int error = errno;
        forget_id(id.get());
        if (!channel) close_channel(home);
        errno = error;
        return nullptr;
    }
    id->synchronous = !channel;
    return id;
}

int destroy_id(const std::shared_ptr<Id>& id) {
    if (!forget_id(id.get())) return fail_minus_one(EINVAL, "another thread destroys this id");
    drop_event(*id);
    const host::IdRequest request{id->number};
    host::EventsReply events;
    const bool known = daemon_knows(*id) && !id->home->closed;
    if (known && is_quiet(*id)) {
        // One that has not disconnected may have a DREP to send by that.
        if (!id->disconnects || !process().page->leave(id->generation, id->number))
            tell(host::Command::destroy_id, request);
    } else if (known && host::call(host::Command::destroy_id, request, events) == 0) {
        drop_unread(*id, events.events_delivered);
    }
    wait_for_acknowledgements(*id, events_taken(*id), "rdma_destroy_id");
    if (id->synchronous) close_channel(id->home);
    return 0;
}

int migrate_id(const std::shared_ptr<Id>& id, const std::shared_ptr<Channel>& target, std::uint64_t& taken) {
    std::shared_ptr<Channel> source = id->home;
    if (target == source) {
        taken = events_taken(*id);
        return 0;
    }
    {
        std::scoped_lock both(source->mutex, target->mutex);
        host::MigrateRequest request;
        request.id = id->number;
        request.file = target->file;
        host::EventsReply reply;
        if (ask(host::Command::migrate, request, reply) != 0) return -1;
        taken = events_taken(*id);  // nobody reads while both mutexes are held
        // What came before the move goes first; nobody can have read the target's socket since.
        append_events(*target, extract_events(*source, id->number, unread(*id, reply.events_delivered)));
        Process& self = process();
        std::lock_guard lock(self.mutex);  // next_event looks for the ids of a channel
        id->home = target;
        id->channel = target.get();
    }
    return 0;
}

void acknowledge(Id& id, Group* group) {
    std::lock_guard lock(id.mutex);
    id.acknowledged++;
    if (group) group->acknowledged++;
    id.all_acknowledged.notify_all();
}

void drop_event(Id& id) {
    if (id.event) rdma_ack_cm_event(id.event);
    id.event = nullptr;
}

void keep_told(Id& id, const cm::Event& event) {
    std::lock_guard lock(id.mutex);
    if (id.always_asks) return;
    id.wants_route = event.type == cm::EventType::addr_resolved;
    id.may_connect = event.type == cm::EventType::route_resolved;
    id.may_accept = event.type == cm::EventType::connect_request;
    id.transitions = event.transitions;
    id.info = event.info;
}

void forget_told(Id& id) {
    std::lock_guard lock(id.mutex);
    forget(id);
}

void always_ask(Id& id) {
    std::lock_guard lock(id.mutex);
    id.always_asks = true;
    forget(id);
}

int complete(Id& id) {
    if (!id.synchronous) return 0;
    drop_event(id);
    if (rdma_get_cm_event(id.channel, &id.event) != 0) return -1;
    int status = id.event->status;
    if (status == 0) return 0;
    const char* name = rdma_event_str(id.event->event);
    if (id.event->event == RDMA_CM_EVENT_REJECTED || status > 0)
        return fail_minus_one(ECONNREFUSED, "%s, reason %d", name, status);
    return fail_minus_one(-status, "%s, status %d", name, status);
}

}  // namespace verbena::rdmacm

using namespace verbena;
using namespace verbena::rdmacm;

extern "C" {

int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space ps) {
    if (const Fault fault{"rdma_create_id"}) return fault.minus_one();
    Call call("rdma_create_id");
    if (!id) return fail_minus_one(EINVAL, "id is NULL: nowhere to put the new id");
    ibv_qp_type type = ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB ? IBV_QPT_UD : IBV_QPT_RC;
    const std::shared_ptr<Id> created = create_id(channel, context, ps, type);
    if (!created) return -1;
    *id = created.get();
    return 0;
}

int rdma_destroy_id(rdma_cm_id* public_id) {
    if (const Fault fault{"rdma_destroy_id"}) return fault.minus_one();
    IdCall id("rdma_destroy_id", public_id, IdCall::Daemon::may_be_gone);
    return id ? destroy_id(id.shared()) : -1;
}

int rdma_migrate_id(rdma_cm_id* public_id, rdma_event_channel* channel) {
    if (const Fault fault{"rdma_migrate_id"}) return fault.minus_one();
    IdCall id("rdma_migrate_id", public_id);
    if (!id) return -1;
    if (!channel && id->synchronous) return fail_minus_one(EINVAL, "the id is synchronous already");
    auto target = channel ? find_channel(channel) : unless_out_of_memory(open_channel);
    if (!target) {
        if (!channel) return -1;
        return fail_minus_one(EINVAL,
                              "event channel %p is none of this process: destroyed, or inherited by fork",
                              static_cast<void*>(channel));
    }
    std::shared_ptr<Channel> source = id->home;
    std::uint64_t taken = 0;
    if (migrate_id(id.shared(), target, taken) != 0) {
        if (!channel) close_channel(target);
        return -1;
    }
    if (id->synchronous) {
        drop_event(*id);
        close_channel(source);
    }
    id->synchronous = !channel;
    // Events of the new channel are not waited for: another thread may read and keep them already.
    wait_for_acknowledgements(*id, taken, "rdma_migrate_id");
    return 0;
}
}
