#include "rdmacm/own_events.h"

#include <sched.h>

#include <mutex>
#include <utility>

#include "host/client.h"
#include "rdmacm/channel.h"
#include "rdmacm/daemon_call.h"
#include "rdmacm/daemon_page.h"
#include "rdmacm/id.h"
#include "rdmacm/known_addresses.h"
#include "rdmacm/lent_ends.h"
#include "rdmacm/process.h"
#include "verbs/private.h"
#include "wire/path.h"

namespace verbena::rdmacm {
namespace {

void daemon_ended(std::uint32_t generation) { process().lent_ends->daemon_ended(generation); }

// The library goes, and the other one stays.
[[gnu::destructor]] void forget_daemon() { verbena_when_daemon_ends(nullptr); }

// Ports that are lent are of that space.
bool may_borrow(const Id& id) { return id.ps == RDMA_PS_TCP; }

cm::QpType type_of(const Id& id) { return static_cast<cm::QpType>(id.qp_type); }

template <class Request>
int write(const Id& id, host::Command command, const Request& request, const cm::Event& event) {
    // First: a thread that reads the event may go on at once.
    if (put_off(command, request) != 0) return -1;
    LentEnds& ends = *process().lent_ends;
    if (ends.write(*id.home, event)) return 0;
    sched_yield();  // the thread that reads may want no more than the processor
    if (ends.write(*id.home, event)) return 0;
    // Full, or the program has closed it: what the daemon is given it keeps until there is room.
    host::RequeueRequest requeue;
    requeue.file = id.home->file;
    requeue.event = event;
    return tell(host::Command::requeue, requeue);
}

}  // namespace

std::optional<cm::Event> take_address(const Id& id, const cm::Endpoint& remote) {
    Process& self = process();
    if (!may_borrow(id) || !self.lent_ends->has(*id.home)) return {};
    std::optional<cm::Event> event =
        self.addresses->find(id.generation, remote, cm::PortSpace::tcp, type_of(id));
    const std::uint16_t port = event ? self.page->take_port(id.generation) : std::uint16_t{0};
    if (port == 0) return {};
    event->id = event->info.id = id.number;
    event->user_handle = handle_of(id);
    event->info.local.port = port;
    event->info.remote = remote;
    event->info.route.flow_label = wire::flow_label_from_ports(port, remote.port);
    return event;
}

void will_learn(Id& id, const KnownAddresses::Moment& asked) {
    if (!may_borrow(id)) return;
    std::lock_guard lock(id.mutex);
    id.asked = asked;
}

void learn_address(Id& id, const cm::Event& resolved) {
    KnownAddresses::Moment asked;
    {
        std::lock_guard lock(id.mutex);
        std::swap(asked, id.asked);
    }
    process().addresses->learn(id.generation, resolved, asked);
}

std::optional<cm::Event> take_route(Id& id) {
    std::lock_guard lock(id.mutex);
    if (!id.wants_route.exchange(false)) return std::nullopt;
    cm::Event event;
    event.type = cm::EventType::route_resolved;
    event.id = id.number;
    event.user_handle = handle_of(id);
    event.info = id.info;
    event.info.state = cm::IdState::route_resolved;
    event.info.path_count = 1;
    event.transitions = id.transitions;
    return event;
}

bool can_write(Channel& channel) {
    LentEnds& ends = *process().lent_ends;
    if (ends.has(channel)) return true;
    if (channel.routes++ != 1) return false;
    verbena_when_daemon_ends(daemon_ended);
    int fd = -1;
    host::Empty nothing;
    if (host::call(host::Command::lend_file, host::FileRequest{channel.file}, nothing, -1, &fd) != 0 ||
        fd < 0)
        return false;
    std::lock_guard lock(channel.mutex);
    if (channel.closed) {
        close(fd);
        return false;
    }
    return ends.keep(channel, channel.generation, fd);
}

int write_address(const Id& id, host::ResolveAddressRequest request, const cm::Event& resolved) {
    request.lent_port = resolved.info.local.port;
    return write(id, host::Command::resolve_address, request, resolved);
}

int write_route(const Id& id, const cm::Event& resolved) {
    host::ResolveRouteRequest request;
    request.id = id.number;
    request.told = 1;
    return write(id, host::Command::resolve_route, request, resolved);
}

}  // namespace verbena::rdmacm
