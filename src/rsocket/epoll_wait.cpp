// How an epoll set waits: a look at the members on the agenda, then at the kernel's set, where it sleeps.
#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>

#include "base/uncancelled.h"
#include "rsocket/epoll_marks.h"
#include "rsocket/epoll_set.h"
#include "rsocket/table.h"

namespace verbena::rsocket {
namespace {

constexpr unsigned kLooks = 4;
constexpr int kAtOnce = 64;

// However a thread leaves.
class RingsAtTheEnd {
   public:
    explicit RingsAtTheEnd(Agenda& agenda) : agenda_(agenda) {}
    ~RingsAtTheEnd() {
        const int error = errno;
        agenda_.ring();
        errno = error;
    }
    RingsAtTheEnd(const RingsAtTheEnd&) = delete;
    RingsAtTheEnd& operator=(const RingsAtTheEnd&) = delete;

   private:
    Agenda& agenda_;
};

int milliseconds_until(Time deadline) {
    if (deadline == kNever) return -1;
    return static_cast<int>(
        std::clamp<Time>((deadline - now() + kMillisecond - 1) / kMillisecond, 0, INT_MAX));
}

}  // namespace

// True if it has an event for the program.
bool EpollSet::look(Member& member, epoll_event& event) {
    if (member.spent) return false;
    auto socket = member.socket.lock();
    if (!socket) {
        forget(member);
        return false;
    }
    socket->arm();
    if (const unsigned arrivals = socket->arrivals(); arrivals != member.arrivals)
        member.told = 0, member.arrivals = arrivals;
    const short ready = socket->readiness(static_cast<short>(member.event.events & 0xffff), &member);
    const bool edge = member.event.events & EPOLLET;
    const bool news = (edge ? ready & ~member.told : ready) != 0;
    member.told = ready;
    if (!news) return false;
    if (find_socket(member.fd) != socket) {  // closed; the service has it a little longer
        forget(member);
        return false;
    }
    member.spent = (member.event.events & EPOLLONESHOT) != 0;
    if (!edge && !member.spent) agenda_.put_quietly(member);
    event.events = static_cast<std::uint16_t>(ready);
    event.data = member.event.data;
    return true;
}

// Each member once, at most.
int EpollSet::collect(std::span<epoll_event> events) {
    std::lock_guard lock(mutex_);
    std::size_t found = 0;
    for (std::size_t left = agenda_.size(); left > 0 && found < events.size(); left--) {
        auto* const member = static_cast<Member*>(agenda_.take());
        if (!member) break;
        found += look(*member, events[found]);
    }
    return static_cast<int>(found);
}

// No more than there is room for: an edge, or an event of EPOLLONESHOT, is told once.
EpollSet::Others EpollSet::ask_kernel(std::span<epoll_event> room, int timeout) {
    Others others;
    if (room.empty()) return others;
    const int count = ::epoll_wait(fd_, room.data(), static_cast<int>(room.size()), timeout);
    if (count < 0) others.found = count;
    for (int i = 0; i < count; i++) {
        const epoll_event event = room[static_cast<std::size_t>(i)];
        const bool bell = event.data.u64 == marked(&agenda_).data.u64;
        const bool sockets = event.data.u64 == marked(&members_).data.u64;
        others.bell |= bell;
        others.sockets |= sockets;
        if (!bell && !sockets) room[static_cast<std::size_t>(others.found++)] = event;
    }
    if (others.sockets) drain_sockets();
    return others;
}

// The members whose descriptors are readable are to be looked at, and what made them readable is taken away.
// The bell stays silent: whoever comes here looks, or rings.
void EpollSet::drain_sockets() {
    std::lock_guard lock(mutex_);
    bool stale = false;
    epoll_event events[kAtOnce];
    for (int count = kAtOnce; count == kAtOnce && !stale;) {
        count = uncancelled::epoll_at_once(sockets_fd_, events, kAtOnce);
        for (int i = 0; i < count; i++) {
            const auto member = members_.find(events[i].data.fd);
            auto socket = member == members_.end() ? nullptr : member->second.socket.lock();
            stale |= !socket;
            if (!socket) continue;
            agenda_.put_quietly(member->second);
            socket->drain(&member->second);
        }
    }
    if (stale && pid_ == own_pid()) renew_sockets_set();
}

int EpollSet::wait(std::span<epoll_event> events, Time deadline, bool nonblocking) {
    const RingsAtTheEnd rings(agenda_);
    unsigned looks = 0;  // without time left
    Others others;
    for (bool last = nonblocking;;) {
        agenda_.hush(others.bell);
        int found = 0;
        const auto room = [&] { return events.subspan(static_cast<std::size_t>(found)); };
        if (others_first_.exchange(false)) {
            Others first = ask_kernel(events.first(1), 0);
            if (first.sockets || first.bell) first = ask_kernel(events.first(1), 0);  // that took the place
            found = std::max(first.found, 0);
        }
        const int sockets = collect(room());
        found += sockets;
        if (room().empty()) others_first_ = sockets > 0;  // next time: they left no room
        others = ask_kernel(room(), found > 0 || last ? 0 : milliseconds_until(deadline));
        if (others.found < 0 && found == 0) return -1;
        found += std::max(others.found, 0);
        if (found > 0) return found;
        // Behind events of ours there may be others; no more than that, should one of ours stay (in a forked
        // child).
        if (last && ((!others.sockets && !others.bell) || ++looks == kLooks)) return 0;
        last = nonblocking || (deadline != kNever && now() >= deadline);
    }
}

}  // namespace verbena::rsocket
