#include "rdmacm/own_events.h"

#include <sched.h>

#include <mutex>

#include "host/client.h"
#include "rdmacm/channel.h"
#include "rdmacm/daemon_call.h"
#include "rdmacm/id.h"
#include "rdmacm/lent_ends.h"
#include "rdmacm/process.h"
#include "verbs/private.h"

namespace verbena::rdmacm {
namespace {

void daemon_ended(std::uint32_t generation) { process().lent_ends->daemon_ended(generation); }

// The library goes, and the other one stays.
[[gnu::destructor]] void forget_daemon() { verbena_when_daemon_ends(nullptr); }

}  // namespace

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

int write_route(const Id& id, const cm::Event& resolved) {
    host::ResolveRouteRequest request;
    request.id = id.number;
    request.told = 1;
    // First: a thread that reads the event may connect at once.
    if (put_off(host::Command::resolve_route, request) != 0) return -1;
    LentEnds& ends = *process().lent_ends;
    if (ends.write(*id.home, resolved)) return 0;
    sched_yield();  // the thread that reads may want no more than the processor
    if (ends.write(*id.home, resolved)) return 0;
    // Full, or the program has closed it: what the daemon is given it keeps until there is room.
    host::RequeueRequest requeue;
    requeue.file = id.home->file;
    requeue.event = resolved;
    return tell(host::Command::requeue, requeue);
}

}  // namespace verbena::rdmacm
