#include "daemon/cm_commands.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/reason.h"
#include "daemon/proc.h"
#include "daemon/reply.h"
#include "daemon/shared_backlog.h"

namespace verbena::daemon {
namespace {

using host::Command;

// As in the kernel, a negative one stays negative and means for ever.
Duration milliseconds(std::int32_t timeout) { return Duration{timeout} * kMillisecond; }

// The first port that anybody may bind (net.ipv4.ip_unprivileged_port_start; usually 1024).
std::uint32_t first_free_for_all() {
    std::uint32_t first = 1024;
    read_setting("/proc/sys/net/ipv4/ip_unprivileged_port_start", first);
    return first;
}

bool may_bind(const Caller& caller, std::uint16_t port) {
    return caller.low_ports || port >= first_free_for_all();
}

// Every request about an id begins with its number.
cm::IdNumber id_of(const Request& request) {
    cm::IdNumber id = 0;
    std::memcpy(&id, request.body.data(), sizeof id);
    return id;
}
static_assert(offsetof(host::IdRequest, id) == 0 && offsetof(host::BindRequest, id) == 0 &&
              offsetof(host::ListenRequest, id) == 0 && offsetof(host::ResolveAddressRequest, id) == 0 &&
              offsetof(host::ResolveRouteRequest, id) == 0 && offsetof(host::ConnectRequest, id) == 0 &&
              offsetof(host::AcceptRequest, id) == 0 && offsetof(host::RejectRequest, id) == 0 &&
              offsetof(host::InitQpRequest, id) == 0 && offsetof(host::OptionRequest, id) == 0 &&
              offsetof(host::NotifyRequest, id) == 0 && offsetof(host::MigrateRequest, id) == 0 &&
              offsetof(host::WriteEventRequest, id) == 0 && offsetof(host::MulticastRequest, id) == 0);

}  // namespace

bool CmCommands::owns_file(const Caller& caller, cm::FileNumber file) const {
    return file != 0 && files_.owner(file) == caller.session;
}

bool CmCommands::owns(const Caller& caller, cm::IdNumber id) const {
    return owns_file(caller, manager_.file(id));
}

int CmCommands::run(const Request& request, const Caller& caller, Descriptor given,
                    std::span<std::uint8_t> reply, Time now) {
    pages_.hear(caller.session, [&](SessionNumber session, cm::IdNumber id) { departed(session, id, now); });
    switch (request.header.command) {
        case Command::share_page:
            return pages_.share(caller.session, given.get());
        case Command::create_id:
            return create(request.as<host::CreateIdRequest>(), caller, reply);
        case Command::requeue: {
            auto body = request.as<host::RequeueRequest>();
            if (!owns_file(caller, body.file))
                return fail(EBADF, "the process has no event channel %u", body.file);
            files_.deliver(body.file, body.event, body.count);
            return 0;
        }
        case Command::communication_established:
            manager_.communication_established(request.as<host::QpRequest>().qp_number, now);
            return 0;
        default:
            break;
    }
    const cm::IdNumber id = id_of(request);
    if (!owns(caller, id)) {
        // Left right behind it, it has been heard of before, and has disconnected by that.
        if (request.header.command == Command::disconnect && request.header.sequence == 0) return 0;
        return fail(EINVAL, "the process has no id %u", id);
    }
    if (request.header.command == Command::listen)
        return listen(request.as<host::ListenRequest>(), given, reply);
    return run_on_id(request, id, caller, reply, now);
}

int CmCommands::create(const host::CreateIdRequest& body, const Caller& caller,
                       std::span<std::uint8_t> reply) {
    if (!owns_file(caller, body.file)) return fail(EBADF, "the process has no event channel %u", body.file);
    Reserve& reserve = reserves_[caller.session];
    Reserve left = reserve;
    if (body.id == 0) {
        left.next = manager_.reserve_ids(1 + body.reserve);
        left.end = left.next + 1 + body.reserve;
    } else if (body.id < left.next || body.id >= left.end) {
        return fail(EINVAL, "%u is no number that the process has in reserve", body.id);
    } else {
        left.next = body.id;
    }
    const host::IdReply out{left.next++};
    if (int error = manager_.create_id_as(out.id, body.file, body.port_space, body.qp_type, body.user_handle))
        return error;
    reserve = left;
    answer(reply, out);
    return 0;
}

void CmCommands::departed(SessionNumber session, cm::IdNumber id, Time now) {
    std::uint64_t events_delivered;
    if (owns({session}, id)) manager_.destroy_id(id, events_delivered, now);
}

void CmCommands::hear_departures(Time now) {
    pages_.hear_all([&](SessionNumber session, cm::IdNumber id) { departed(session, id, now); });
}

int CmCommands::bind(const host::BindRequest& body, const Caller& caller, std::span<std::uint8_t> reply,
                     Time now) {
    cm::IdInfo info;
    int error = with_port(body.local.port, now, [&] {
        return manager_.bind(body.id, body.local, may_bind(caller, body.local.port));
    });
    if (!error) error = manager_.query(body.id, info);
    answer(reply, info);
    return error;
}

int CmCommands::listen(const host::ListenRequest& body, const Descriptor& page,
                       std::span<std::uint8_t> reply) {
    std::unique_ptr<cm::TakenRequests> taken;
    if (page) {
        SharedPage shared;
        if (int error = SharedPage::open(page.get(), shared)) return error;
        taken = std::make_unique<SharedBacklog>(std::move(shared));
    }
    cm::IdInfo info;
    int error = manager_.listen(body.id, body.backlog, std::move(taken));
    if (!error) error = manager_.query(body.id, info);
    answer(reply, info);
    return error;
}

int CmCommands::migrate(const host::MigrateRequest& body, const Caller& caller,
                        std::span<std::uint8_t> reply) {
    if (!owns_file(caller, body.file)) return fail(EBADF, "the process has no event channel %u", body.file);
    host::EventsReply out;
    if (int error = manager_.migrate(body.id, body.file, out.events_delivered)) return error;
    answer(reply, out);
    return 0;
}

int CmCommands::run_on_id(const Request& request, cm::IdNumber id, const Caller& caller,
                          std::span<std::uint8_t> reply, Time now) {
    host::EventsReply events;
    int error = 0;
    const bool told = request.header.sequence == 0;  // nobody waits
    switch (request.header.command) {
        case Command::destroy_id:
            error = manager_.destroy_id(id, events.events_delivered, now);
            answer(reply, events);
            return error;
        case Command::bind:
            return bind(request.as<host::BindRequest>(), caller, reply, now);
        case Command::resolve_address:
            error = resolve_address(request.as<host::ResolveAddressRequest>(), caller, now);
            if (error && told) manager_.refuse(id, cm::EventType::addr_error, error);
            return error;
        case Command::resolve_route: {
            auto body = request.as<host::ResolveRouteRequest>();
            return manager_.resolve_route(id, milliseconds(body.timeout_ms), now, body.told != 0);
        }
        case Command::connect:
            error = manager_.connect(id, request.as<host::ConnectRequest>().parameters, now);
            if (error && told) manager_.refuse(id, cm::EventType::connect_error, error);
            return error;
        case Command::accept: {
            auto body = request.as<host::AcceptRequest>();
            error =
                manager_.accept(id, body.has_parameters ? &body.parameters : nullptr, body.user_handle, now);
            // A confirmation that the peer's end has crossed is none.
            if (error && told && body.has_parameters) manager_.refuse_accept(id, error, body.user_handle);
            return error;
        }
        case Command::reject: {
            auto body = request.as<host::RejectRequest>();
            return manager_.reject(id, std::span(body.private_data).first(body.private_data_length),
                                   body.reason, now);
        }
        case Command::disconnect:
            return manager_.disconnect(id, now);
        case Command::init_qp_attributes: {
            cm::QpTransition transition;
            error = manager_.init_qp_attributes(id, request.as<host::InitQpRequest>().qp_state, transition);
            answer(reply, transition);
            return error;
        }
        case Command::set_option: {
            auto body = request.as<host::OptionRequest>();
            return manager_.set_option(id, body.level, body.option, std::span(body.value).first(body.length));
        }
        case Command::notify:
            return manager_.notify(id, request.as<host::NotifyRequest>().event);
        case Command::migrate:
            return migrate(request.as<host::MigrateRequest>(), caller, reply);
        case Command::write_event: {
            auto body = request.as<host::WriteEventRequest>();
            return manager_.write_event(id, body.type, body.status, body.argument);
        }
        case Command::join_multicast: {
            auto body = request.as<host::MulticastRequest>();
            return manager_.join_multicast(id, body.group, body.join_flags, body.handle, now);
        }
        case Command::leave_multicast:
            error = manager_.leave_multicast(id, request.as<host::MulticastRequest>().group,
                                             events.events_delivered);
            answer(reply, events);
            return error;
        case Command::request_taken:
            manager_.request_taken(id);
            return 0;
        default:
            return fail(EOPNOTSUPP, "no such command");
    }
}

int CmCommands::resolve_address(const host::ResolveAddressRequest& body, const Caller& caller, Time now) {
    const Duration timeout = milliseconds(body.timeout_ms);
    cm::Endpoint source = body.source;
    const bool lent = body.lent_port != 0;
    if (lent) {
        if (!pages_.taken(caller.session, body.lent_port))
            return fail(EINVAL, "port %u was not lent to the process", body.lent_port);
        source = {};
        source.family = body.remote.family;
        source.port = body.lent_port;
    }
    const bool has_source = lent || body.has_source;
    const std::uint16_t port = has_source ? source.port : 0;
    const bool privileged = lent || (port != 0 && may_bind(caller, port));
    const auto resolve = [&] {
        return manager_.resolve_address(body.id, has_source ? &source : nullptr, body.remote, timeout, now,
                                        privileged, lent);
    };
    const int error = lent ? resolve() : with_port(port, now, resolve);
    if (!error) pages_.lend_more(caller.session);
    return error;
}

// Nobody has a port who does not need it. `bind()`: 0 or an errno, and may be tried once more then.
template <class Bind>
int CmCommands::with_port(std::uint16_t port, Time now, Bind bind) {
    if (port != 0) {
        hear_departures(now);
        pages_.recall(port);
        return bind();
    }
    const int error = bind();
    if (error != EADDRNOTAVAIL) return error;
    hear_departures(now);
    pages_.recall_all();
    return bind();
}

void CmCommands::ended(SessionNumber session) {
    reserves_.erase(session);
    pages_.ended(session);
}

void CmCommands::close_file(cm::FileNumber file, Time now) {
    manager_.close_file(file, now);
    files_.close(file);
}

}  // namespace verbena::daemon
