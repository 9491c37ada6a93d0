#include "daemon/queues.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/reason.h"
#include "link/socket_options.h"
#include "link/steering.h"

namespace verbena::daemon {
namespace {

// Connections that the connection manager knows nothing of (numbers exchanged over TCP) may have had packets
// under way as long: the CM's time-wait with its usual exponent (IBA 12.9.8.4).
constexpr Duration kTimeWait = iba_timeout(20);

}  // namespace

int Queues::open(const Setup& setup) {
    setup_ = setup;
    Queue first;
    // Without receive offload the kernel takes merged packets apart before they get here.
    first.socket.reset(link::open_group_socket(setup.port, false));
    if (!first.socket) return errno;
    port_ = link::bound_port(first.socket.get());
    if (setup_.steering && link::attach_steering(first.socket.get(), 1) != 0) {
        log(LogLevel::warn, "packets cannot be steered here; programs pass them on to each other: %s",
            last_reason());
        setup_.steering = false;
    }
    first.taken = true;
    queues_.push_back(std::move(first));
    return 0;
}

bool Queues::takes_ipv6() const { return link::family_of(queues_[0].socket.get()) == AF_INET6; }

std::size_t Queues::receive_buffer() const { return link::receive_buffer(queues_[0].socket.get()); }

std::size_t Queues::in_use() const {
    return static_cast<std::size_t>(
        std::count_if(queues_.begin() + 1, queues_.end(), [](const Queue& queue) { return queue.taken; }));
}

int Queues::grow() {
    const auto size = static_cast<std::uint32_t>(queues_.size());
    if (size >= link::kMaxBlocks - 1)
        return fail(ENOSPC, "all %u receive queues are in use or in time-wait", size - 1);
    Queue next;
    next.socket.reset(link::open_group_socket(port_, setup_.gro));
    if (!next.socket) return errno;
    if (setup_.steering) {
        if (int error = link::attach_steering(queues_[0].socket.get(), size + 1)) return error;
        if (int error = link::lock_filter(next.socket.get())) return error;
    }
    queues_.push_back(std::move(next));
    return 0;
}

int Queues::take(pid_t owner, Time now, std::uint32_t& queue) {
    auto free = std::find_if(queues_.begin(), queues_.end(),
                             [&](const Queue& each) { return !each.taken && each.free_at <= now; });
    if (free == queues_.end()) {
        if (int error = grow()) return error;
        free = queues_.end() - 1;
    } else if (free->socket) {
        if (int error = link::unpark(free->socket.get())) return error;
    } else {
        free->socket.reset(link::open_group_socket(port_, setup_.gro));
        if (!free->socket) return errno;
    }
    free->taken = true;
    free->owner = owner;
    queue = static_cast<std::uint32_t>(free - queues_.begin());
    return 0;
}

void Queues::give_back(std::uint32_t number, Time now) {
    Queue& queue = queues_[number];
    queue.taken = false;
    queue.owner = 0;
    queue.free_at = std::max(queue.free_at, now + kTimeWait);
    // Without steering the kernel would go on choosing this queue for a share of everybody's packets, and its
    // place in the group means nothing.
    if (!setup_.steering)
        queue.socket.reset();
    else if (link::park(queue.socket.get()) != 0)
        log(LogLevel::warn, "queue %u could not be parked: %s", number, last_reason());
}

void Queues::quarantine(std::uint32_t qp_number, Time until) {
    const std::uint32_t block = link::block_of(qp_number);
    if (block > 0 && block < queues_.size()) queues_[block].free_at = std::max(queues_[block].free_at, until);
}

}  // namespace verbena::daemon
