// rdma_get_cm_event and rdma_ack_cm_event: from the connection manager's events to the program's. Some events
// are the library's to act upon first (a reply arrived: connect the queue pair and confirm), and some never
// reach the program.
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <optional>

#include "base/call_fault.h"
#include "base/out_of_memory.h"
#include "base/reason.h"
#include "host/backlog.h"
#include "host/client.h"
#include "rdmacm/address.h"
#include "rdmacm/channel.h"
#include "rdmacm/daemon_call.h"
#include "rdmacm/device.h"
#include "rdmacm/event_reason.h"
#include "rdmacm/id.h"
#include "rdmacm/multicast.h"
#include "rdmacm/newer_api.h"
#include "rdmacm/own_events.h"
#include "rdmacm/process.h"
#include "rdmacm/qp.h"
#include "verbs/private.h"

namespace verbena::rdmacm {
namespace {

enum class Fate { report, swallow };

constexpr unsigned kHandoverYields = 16;
constexpr std::chrono::microseconds kLongYield{20};  // somebody else wanted the processor
constexpr std::chrono::microseconds kHandoverLook{100};
constexpr std::chrono::microseconds kHandoverPatience{200'000};

// A step of the library failed, which the event now says.
void report_step(EventRecord& record, rdma_cm_event_type event) {
    record.event = event;
    record.status = errno ? -errno : -EIO;
    record.keep_reason(last_reason());
}

// The record owns the private data that the event points to.
const void* keep_private_data(EventRecord& record, const cm::ConnectParameters& from) {
    record.private_data = from.private_data;
    return from.private_data_length ? record.private_data.data() : nullptr;
}

void show_connection(EventRecord& record, const cm::ConnectParameters& from) {
    rdma_conn_param& conn = record.param.conn;
    conn.private_data = keep_private_data(record, from);
    conn.private_data_len = from.private_data_length;
    conn.responder_resources = from.responder_resources;
    conn.initiator_depth = from.initiator_depth;
    conn.flow_control = from.flow_control;
    conn.retry_count = from.retry_count;
    conn.rnr_retry_count = from.rnr_retry_count;
    conn.srq = from.srq;
    conn.qp_num = from.qp_number;
}

void show_datagram(EventRecord& record, const cm::Event& event) {
    rdma_ud_param& ud = record.param.ud;
    ud.private_data = keep_private_data(record, event.connection);
    ud.private_data_len = event.connection.private_data_length;
    ud.ah_attr = address_vector(event.ud_route);
    ud.qp_num = event.connection.qp_number;
    ud.qkey = event.connection.qkey;
}

void show_parameters(EventRecord& record, const cm::Event& event) {
    if (is_datagram(*record.id))
        show_datagram(record, event);
    else
        show_connection(record, event.connection);
}

// A daemon half that nobody adopts is destroyed: the peer is told (REJ 28).
Fate abandon_child(cm::IdNumber number) {
    host::EventsReply ignored;
    ask(host::Command::destroy_id, host::IdRequest{number}, ignored);
    return Fate::swallow;
}

// Programs hand a request to another thread by a variable that has room for one (rping -P does): the next
// request overwrites it when it comes too soon. A kernel hides that by being slow. So a request waits until
// the program has done something with the one before. A program that collects requests, or that must not
// block, is held up once at most.
void wait_for_last_child(Id& listener) {
    std::shared_ptr<Id> child;
    {
        std::lock_guard lock(listener.mutex);
        if (listener.collects_requests) return;
        child = listener.last_child.lock();
    }
    if (!child || (fcntl(listener.home->fd, F_GETFL) & O_NONBLOCK)) return;
    auto taken = [&] { return child->used || std::atomic_ref(child->context) != listener.context; };
    // A thread that is just being woken up gets the processor so, and nobody sleeps.
    for (unsigned yields = 0; yields < kHandoverYields; yields++) {
        {
            std::lock_guard lock(child->mutex);
            if (taken()) return;
        }
        const auto before = std::chrono::steady_clock::now();
        sched_yield();
        if (std::chrono::steady_clock::now() - before > kLongYield) break;
    }
    std::unique_lock lock(child->mutex);
    for (std::chrono::microseconds slept{0}; !taken(); slept += kHandoverLook) {
        if (slept >= kHandoverPatience) {
            lock.unlock();
            std::lock_guard guard(listener.mutex);
            listener.collects_requests = true;
            return;
        }
        child->first_used.wait_for(lock, kHandoverLook);  // a new context shows by looking only
    }
}

// From here on the request is the program's. False: another thread destroys the listener, and with it the
// request; whichever of the two takes the lock first is also heard first by the daemon.
bool take_request(const Id& listener) {
    Process& self = process();
    std::lock_guard lock(self.mutex);
    if (!self.ids.contains(&listener)) return false;
    if (listener.backlog) {
        auto& backlog = listener.backlog.as<host::Backlog>();
        backlog.taken.fetch_add(1);
        if (!backlog.tell.load()) return true;
    }
    return tell(host::Command::request_taken, host::IdRequest{listener.number}) == 0;
}

// The id of a request; nullptr if it is of no use to the program.
std::shared_ptr<Id> make_child(Id& listener, const cm::Event& event) {
    auto child = adopt_id(event.id, listener.home, listener.context, listener.ps, listener.qp_type);
    child->generation = listener.generation;
    child->responder_resources = event.connection.responder_resources;
    child->initiator_depth = event.connection.initiator_depth;
    child->remote_ece.vendor_id = event.connection.ece_vendor_id;
    child->remote_ece.options = event.connection.ece_attribute_mod;
    keep_told(*child, event);
    bool usable = show(*child, event.info) == 0;
    // The child of a synchronous listener is synchronous, with a channel of its own.
    if (usable && listener.synchronous) {
        auto own = unless_out_of_memory(open_channel);
        std::uint64_t taken;  // none: nobody knows the child yet
        usable = own && migrate_id(child, own, taken) == 0;
        child->synchronous = usable;
        if (own && !usable) close_channel(own);
    }
    if (usable) return child;
    forget_id(child.get());
    return nullptr;
}

Fate connection_request(EventRecord& record, const cm::Event& event) {
    Id& listener = *record.owner;
    wait_for_last_child(listener);
    if (!take_request(listener)) return Fate::swallow;
    const std::shared_ptr<Id> child = unless_out_of_memory([&] { return make_child(listener, event); });
    if (!child) return abandon_child(event.id);
    {
        std::lock_guard lock(listener.mutex);
        listener.last_child = child;
    }
    record.listen_id = &listener;
    record.id = child.get();
    show_parameters(record, event);
    return Fate::report;
}

// The reply to rdma_connect. With a queue pair of the library's the rest happens here, and the program sees
// the connection established; without one it continues itself (rdma_establish).
Fate reply_arrived(EventRecord& record, const cm::Event& event) {
    Id& id = *record.owner;
    show_connection(record, event.connection);
    id.remote_ece.vendor_id = event.connection.ece_vendor_id;
    id.remote_ece.options = event.connection.ece_attribute_mod;
    if (!id.qp) return Fate::report;
    // What the peer grants holds, not what rdma_connect asked for; as far as the device can.
    if (id.device) {
        id.responder_resources =
            std::min(event.connection.responder_resources, id.device->max_responder_resources);
        id.initiator_depth = std::min(event.connection.initiator_depth, id.device->max_initiator_depth);
    }
    host::AcceptRequest confirm;
    confirm.id = id.number;
    confirm.user_handle = handle_of(id);
    // If the peer has thought better of it meanwhile, that is the next event; or rdma_connect's result.
    if (connect_qp(id) == 0 && tell_or_ask(!id.synchronous, host::Command::accept, confirm) == 0) {
        record.event = RDMA_CM_EVENT_ESTABLISHED;
        id.was_connected = true;
        return Fate::report;
    }
    report_step(record, RDMA_CM_EVENT_CONNECT_ERROR);
    id.connect_failed = true;
    fail_qp(id);
    return Fate::report;
}

Fate join_result(EventRecord& record, const cm::Event& event) {
    record.group = find_group(*record.owner, event.argument);
    if (!record.group) return Fate::swallow;
    show_datagram(record, event);
    record.param.ud.private_data = record.group->context;
    if (record.event == RDMA_CM_EVENT_MULTICAST_ERROR) return Fate::report;
    if (int error = attach_group(*record.owner, *record.group, event)) {
        report_step(record, RDMA_CM_EVENT_MULTICAST_ERROR);
        record.status = -error;
    }
    return Fate::report;
}

// Fills the record in; record.owner is set, and its id counts the event as taken already.
Fate translate(EventRecord& record, const cm::Event& event) {
    Id& id = *record.owner;
    record.id = &id;
    if (event.type != cm::EventType::connect_request) keep_told(id, event);
    set_type(record, static_cast<unsigned>(event.type));
    record.status = event.status;
    switch (event.type) {
        case cm::EventType::addr_resolved:
            learn_address(id, event);
            if (show(id, event.info) != 0) report_step(record, RDMA_CM_EVENT_ADDR_ERROR);
            return Fate::report;
        case cm::EventType::route_resolved:
            if (id.device_gone) return Fate::swallow;  // the library's own crossed the daemon's
            if (show(id, event.info) != 0) report_step(record, RDMA_CM_EVENT_ROUTE_ERROR);
            return Fate::report;
        case cm::EventType::connect_request:
            return connection_request(record, event);
        case cm::EventType::connect_response:
            return reply_arrived(record, event);
        case cm::EventType::rejected:
            if (id.connect_failed) return Fate::swallow;
            if (id.was_connected) {  // it crossed our confirmation
                record.event = RDMA_CM_EVENT_DISCONNECTED;
                record.status = 0;
            }
            show_connection(record, event.connection);
            fail_qp(id);
            return Fate::report;
        case cm::EventType::disconnected:
            if (id.connect_failed) return Fate::swallow;
            id.quiet_until = static_cast<Time>(event.argument);
            // The peer's last data came before its disconnect request: the program shall find it first.
            if (PinnedQp qp(id); qp && !id.home->reader_polls)
                verbena_quiesce(id.verbs, qp.get());
            else if (id.verbs)
                verbena_settle(id.verbs);
            return Fate::report;
        case cm::EventType::established:
            id.was_connected = !is_datagram(id);
            break;
        case cm::EventType::device_removal:
            id.was_connected = false;
            id.device_gone = true;
            break;
        case cm::EventType::multicast_join:
        case cm::EventType::multicast_error:
            return join_result(record, event);
        case cm::EventType::internal:  // a call that was told and refused; or one of the library's own
            set_type(record, static_cast<unsigned>(event.argument));
            record.keep_reason(event.note.data());
            if (event.argument == static_cast<std::uint64_t>(cm::EventType::connect_error) && id.accepts)
                fail_qp(id);
            return Fate::report;
        case cm::EventType::user:
            set_argument(record, event.argument);
            return Fate::report;
        default:
            break;
    }
    show_parameters(record, event);
    return Fate::report;
}

}  // namespace
}  // namespace verbena::rdmacm

using namespace verbena;
using namespace verbena::rdmacm;

extern "C" {

int rdma_get_cm_event(rdma_event_channel* public_channel, rdma_cm_event** event) {
    if (const Fault fault{"rdma_get_cm_event"}) return fault.minus_one();
    Call call("rdma_get_cm_event");
    if (!event) return fail_minus_one(EINVAL, "event is NULL: nowhere to put the event");
    auto channel = find_channel(public_channel);
    while (channel) {
        auto record = std::unique_ptr<EventRecord>(new (std::nothrow) EventRecord);
        if (!record) return fail_minus_one(ENOMEM, "no memory for an event");
        cm::Event arrived;
        std::optional<NoCancellation> whole;  // an event that is lost is never acknowledged
        const auto read = [&] { return next_event(*channel, arrived, record->owner, whole); };
        if (int error = unless_out_of_memory(read)) {
            if (channel->closed) break;
            errno = error;
            return -1;
        }
        if (translate(*record, arrived) == Fate::report) {
            record->note = arrived.note;
            explain_failure(*record);
            if (record->group) {
                std::lock_guard lock(record->owner->mutex);
                record->group->taken++;
            }
            *event = record.release();
            return 0;
        }
        acknowledge(*record->owner, nullptr);
    }
    late_reader(public_channel);
    return fail_minus_one(EINVAL, "event channel %p is none of this process: destroyed, or inherited by fork",
                          static_cast<void*>(public_channel));
}

int rdma_ack_cm_event(rdma_cm_event* event) {
    if (const Fault fault{"rdma_ack_cm_event"}) return fault.minus_one();
    Call call("rdma_ack_cm_event");
    if (!event) return fail_minus_one(EINVAL, "event is NULL");
    std::unique_ptr<EventRecord> record(static_cast<EventRecord*>(event));
    acknowledge(*record->owner, record->group.get());
    return 0;
}
}
