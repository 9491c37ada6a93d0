// Life and death of an id, its events, and what needs no more than the id itself.

#include "cm/id.h"

#include <cerrno>
#include <string_view>

#include "base/reason.h"
#include "cm/state.h"
#include "cm/text.h"

namespace verbena::cm {

Id* Manager::State::find(IdNumber number) {
    auto found = ids.find(number);
    return found == ids.end() ? nullptr : &found->second;
}

int Manager::State::find(IdNumber number, Id*& id) {
    id = find(number);
    if (!id) return fail(ENOENT, "there is no id %u", number);
    if (id->state == IdState::device_removed)
        return fail(EIO, "the device of id %u was removed; it can only be destroyed", number);
    return 0;
}

IdNumber Manager::State::new_numbers(std::uint32_t count) {
    for (;;) {
        if (last_number > UINT32_MAX - count) last_number = 0;
        const IdNumber first = last_number + 1;
        last_number += count;
        const auto next = ids.lower_bound(first);
        if (next == ids.end() || next->first > last_number) return first;
    }
}

Id& Manager::State::add(IdNumber number, FileNumber file, PortSpace port_space, QpType qp_type,
                        std::uint64_t user_handle) {
    Id& id = ids[number];
    id.number = number;
    id.file = file;
    id.port_space = port_space;
    id.qp_type = qp_type;
    id.user_handle = user_handle;
    id.receive_psn = environment.random() & kPsnMask;
    return id;
}

void Manager::State::deliver(Id& id, const Event& event) {
    // A request counts for the listener, whose program reads and acknowledges it.
    if (!id.accepted && event.type != EventType::connect_request) return;
    id.events_delivered++;
    environment.deliver(id.file, event);
}

void Manager::State::deliver(Id& id, EventType type, int status) {
    Event event;
    event.type = type;
    event.status = status;
    event.id = id.number;
    event.user_handle = id.user_handle;
    if (type == EventType::addr_resolved || type == EventType::route_resolved) describe(id, event);
    deliver(id, event);
}

IdInfo Manager::State::info(const Id& id) const {
    IdInfo info;
    info.id = id.number;
    info.state = id.state;
    info.qp_type = id.qp_type;
    info.port_space = id.port_space;
    info.local = id.local;
    info.remote = id.remote;
    info.route = id.route;
    if (has_device(id)) info.node_guid = environment.node_guid(id.route.device);
    info.path_count = id.path_count;
    info.local_qkey = id.qkey;
    return info;
}

void Manager::State::describe(Id& id, Event& event) {
    event.info = info(id);
    if (id.qp_type == QpType::ud || !has_device(id))
        return;  // a datagram's Q_Key is settled by asking for it
    const std::size_t known = id.connection ? event.transitions.size() : 1;
    for (std::size_t i = 0; i < known; i++)
        if (init_qp_attributes(id, static_cast<std::uint8_t>(kInit + i), event.transitions[i]) != 0)
            event.transitions[i] = {};
}

int Manager::State::wrong_state(const Id& id, const char* wanted) {
    return fail(EINVAL, "id %u is %s; it must be %s", id.number, to_string(id.state), wanted);
}

// Ends whatever the id has going with a peer; says so to the peer.
void Manager::State::end_conversation(Id& id, Time now) {
    queries.cancel(id.number);
    if (id.connection) connections.destroy(id.connection, now);
    id.connection = 0;
    if (id.sidr_request) {
        if (id.sidr_asked)
            sidr.cancel(id.sidr_request);
        else
            sidr.answer(id.sidr_request, wire::SidrStatus::rejected, 0, 0, {}, now);
    }
    id.sidr_request = 0;
    if (id.state == IdState::listen) {
        listeners.erase(id.number);
        // Requests that the program never read: nobody will answer them.
        learn_taken(id);
        std::deque<IdNumber> children;
        children.swap(id.unread_children);
        for (IdNumber number : children)
            if (Id* child = find(number)) destroy(*child, now);
    }
    if (id.has_port) ports.release(id.port_space, id.local.port, id.number);
    id.has_port = false;
    id.groups.clear();
}

void Manager::State::destroy(Id& id, Time now) {
    end_conversation(id, now);
    ids.erase(id.number);
}

void Manager::State::remove_device(Id& id, Time now) {
    bool told = id.accepted;
    end_conversation(id, now);
    id.state = IdState::device_removed;
    id.route.device = kNoDevice;
    if (told) deliver(id, EventType::device_removal, 0);
}

FileNumber Manager::file(IdNumber number) const {
    const Id* id = state_->find(number);
    return id ? id->file : 0;
}

int Manager::query(IdNumber number, IdInfo& info) {
    Id* id;
    if (int error = state_->find(number, id)) return error;
    info = state_->info(*id);
    return 0;
}

int Manager::migrate(IdNumber number, FileNumber file, std::uint64_t& events_delivered) {
    Id* id;
    if (int error = state_->find(number, id)) return error;
    events_delivered = id->events_delivered;
    id->file = file;
    // Requests that nobody has taken go along with their listener.
    state_->learn_taken(*id);
    for (IdNumber child : id->unread_children)
        if (Id* unread = state_->find(child)) unread->file = file;
    return 0;
}

int Manager::write_event(IdNumber number, EventType type, int status, std::uint64_t argument) {
    Id* id;
    if (int error = state_->find(number, id)) return error;
    if (type != EventType::user && type != EventType::internal)
        return fail(EINVAL, "a program may write USER events only, not type %u", static_cast<unsigned>(type));
    Event event;
    event.type = type;
    event.status = status;
    event.id = id->number;
    event.user_handle = id->user_handle;
    event.argument = argument;
    state_->deliver(*id, event);
    return 0;
}

void Manager::refuse(IdNumber number, EventType as, int error) {
    Id* id = state_->find(number);
    if (!id) return;
    if (id->state == IdState::device_removed) return state_->deliver(*id, EventType::device_removal, 0);
    Event event;
    event.type = EventType::internal;
    event.status = -error;
    event.id = id->number;
    event.user_handle = id->user_handle;
    event.argument = static_cast<std::uint64_t>(as);
    std::string_view(last_reason()).copy(event.note.data(), event.note.size() - 1);
    state_->deliver(*id, event);
}

void Manager::refuse_accept(IdNumber number, int error, std::uint64_t user_handle) {
    if (Id* id = state_->find(number)) {
        id->user_handle = user_handle;
        id->accepted = true;
    }
    refuse(number, EventType::connect_error, error);
}

}  // namespace verbena::cm
