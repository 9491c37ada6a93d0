#include "rsocket/epoll.h"

#include <poll.h>
#include <rdma/rsocket.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <map>
#include <unordered_map>

#include "base/call_fault.h"
#include "base/reason.h"
#include "rsocket/table.h"

namespace verbena::rsocket {
namespace {

constexpr unsigned kLooks = 4;

// Of rsockets and of the others it keeps what is needed to answer; the kernel's set is where it sleeps.
class Epoll {
   public:
    explicit Epoll(int fd) : fd_(fd) {}
    ~Epoll() {
        for (auto& [fd, member] : members_)
            if (auto socket = member.socket.lock()) socket->remove_sleeper(sleeper_);
        if (fd_ >= 0) ::close(fd_);
    }
    // Its descriptor was closed by close(), and the number is another's now.
    void lose_descriptor() { fd_ = -1; }
    Epoll(const Epoll&) = delete;
    Epoll& operator=(const Epoll&) = delete;

    int start() {
        if (int error = sleeper_.prepare()) return error;
        epoll_event event = marked(&sleeper_);
        return epoll_ctl(fd_, EPOLL_CTL_ADD, sleeper_.fd(), &event) == 0 ? 0 : errno;
    }

    int control(int operation, int fd, const epoll_event* event);
    int wait(std::span<epoll_event> events, Time deadline, bool nonblocking);

   private:
    // What wakes us, told from what the program waits for by addresses that no data of the program's can be.
    static epoll_event marked(const void* own) {
        epoll_event event{EPOLLIN, {}};
        event.data.u64 = reinterpret_cast<std::uintptr_t>(own);
        return event;
    }
    bool is_sleeper(const epoll_event& event) const { return event.data.u64 == marked(&sleeper_).data.u64; }
    bool is_socket(const epoll_event& event) const { return event.data.u64 == marked(&members_).data.u64; }

    struct Member {
        std::weak_ptr<Socket> socket;  // nothing: another descriptor
        epoll_event event{};
        short told = 0;         // EPOLLET: what was reported and still holds,
        unsigned arrivals = 0;  // since so many came
        bool spent = false;     // EPOLLONESHOT
    };
    using Members = std::map<int, Member>;  // rsockets
    int collect(std::span<epoll_event> events, bool& stays);
    struct Others {
        int found = 0;
        bool woken = false;  // there were events of ours, which took places
        bool sockets = false;
    };
    Others ask_kernel(std::span<epoll_event> room, int timeout);
    void drain_sockets();
    Members::iterator forget(Members::iterator member);

    int fd_;
    Sleeper sleeper_;
    std::mutex mutex_;
    Members members_;
    int last_ = -1;                          // fairness: the next look begins behind it
    std::atomic<bool> others_first_{false};  // the same for other descriptors
};

Epoll::Members::iterator Epoll::forget(Members::iterator member) {
    if (auto socket = member->second.socket.lock()) socket->remove_sleeper(sleeper_);
    return members_.erase(member);
}

int Epoll::control(int operation, int fd, const epoll_event* event) {
    std::lock_guard lock(mutex_);
    auto socket = find_socket(fd);
    auto known = members_.find(fd);
    if (known != members_.end() && known->second.socket.lock() != socket) {  // closed meanwhile
        forget(known);
        known = members_.end();
    }
    if (!socket) return ::epoll_ctl(fd_, operation, fd, const_cast<epoll_event*>(event)) == 0 ? 0 : errno;
    if (operation != EPOLL_CTL_DEL && !event) return fail(EFAULT, "the event is NULL");
    switch (operation) {
        case EPOLL_CTL_ADD: {
            if (known != members_.end()) return fail(EEXIST, "descriptor %d is in the set", fd);
            epoll_event inner = marked(&members_);
            if (::epoll_ctl(fd_, EPOLL_CTL_ADD, fd, &inner) != 0 && errno != EEXIST) return errno;
            members_[fd] = {socket, *event};
            socket->add_sleeper(sleeper_);
            socket->arm();
            sleeper_.wake();
            return 0;
        }
        case EPOLL_CTL_MOD:
            if (known == members_.end()) return fail(ENOENT, "descriptor %d is not in the set", fd);
            known->second.event = *event;
            known->second.told = 0;
            known->second.spent = false;
            sleeper_.wake();
            return 0;
        case EPOLL_CTL_DEL:
            if (known == members_.end()) return fail(ENOENT, "descriptor %d is not in the set", fd);
            ::epoll_ctl(fd_, EPOLL_CTL_DEL, fd, nullptr);
            forget(known);
            return 0;
        default:
            return fail(EINVAL, "operation %d", operation);
    }
}

// `stays`: something is ready after that, too.
int Epoll::collect(std::span<epoll_event> events, bool& stays) {
    std::lock_guard lock(mutex_);
    int found = 0;
    const std::size_t count = members_.size();
    auto next = members_.upper_bound(last_);
    for (std::size_t i = 0; i < count && found < static_cast<int>(events.size()) && !members_.empty(); i++) {
        if (next == members_.end()) next = members_.begin();
        auto& [fd, member] = *next;
        last_ = fd;
        auto socket = member.socket.lock();
        if (!socket) {
            next = members_.erase(next);
            continue;
        }
        const auto here = next++;
        if (member.spent) continue;
        const auto wanted = static_cast<short>(member.event.events & 0xffff);
        socket->arm();
        if (const unsigned arrivals = socket->arrivals(); arrivals != member.arrivals)
            member.told = 0, member.arrivals = arrivals;
        const short ready = socket->readiness(wanted);
        const bool edge = member.event.events & EPOLLET;
        if (ready == 0 || (edge && (ready & ~member.told) == 0)) {
            member.told = ready;
            continue;
        }
        if (find_socket(fd) != socket) {  // closed; the service has it a little longer
            forget(here);
            continue;
        }
        member.told = ready;
        member.spent = (member.event.events & EPOLLONESHOT) != 0;
        stays |= !edge && !member.spent;
        auto& event = events[static_cast<std::size_t>(found++)];
        event.events = static_cast<std::uint16_t>(ready);
        event.data = member.event.data;
    }
    return found;
}

// No more than there is room for: an edge, or an event of EPOLLONESHOT, is told once.
Epoll::Others Epoll::ask_kernel(std::span<epoll_event> room, int timeout) {
    Others others;
    if (room.empty()) return others;
    const int count = ::epoll_wait(fd_, room.data(), static_cast<int>(room.size()), timeout);
    if (count < 0) others.found = count;
    for (int i = 0; i < count; i++) {
        const epoll_event event = room[static_cast<std::size_t>(i)];
        const bool socket = is_socket(event), ours = socket || is_sleeper(event);
        others.sockets |= socket;
        others.woken |= ours;
        if (!ours) room[static_cast<std::size_t>(others.found++)] = event;
    }
    return others;
}

// What woke us is taken away; other threads that sleep on it are told by drain().
void Epoll::drain_sockets() {
    std::lock_guard lock(mutex_);
    for (auto& [fd, member] : members_) {
        auto socket = member.socket.lock();
        if (!socket) continue;
        pollfd look{fd, POLLIN, 0};
        if (::poll(&look, 1, 0) > 0) socket->drain();
    }
}

int Epoll::wait(std::span<epoll_event> events, Time deadline, bool nonblocking) {
    unsigned looks = 0;  // without time left
    for (bool last = nonblocking;;) {
        sleeper_.drain();
        int found = 0;
        const auto room = [&] { return events.subspan(static_cast<std::size_t>(found)); };
        if (others_first_.exchange(false)) {
            Others first = ask_kernel(events.first(1), 0);
            if (first.sockets) drain_sockets();
            if (first.woken) first = ask_kernel(events.first(1), 0);  // that was ours, which took the place
            found = std::max(first.found, 0);
        }
        bool stays = false;
        const int sockets = collect(room(), stays);
        found += sockets;
        if (room().empty()) {
            stays = true;
            others_first_ = sockets > 0;  // next time: they left no room
        }
        int timeout = 0;
        if (found == 0 && !last) {
            timeout = -1;
            if (deadline != kNever)
                timeout = static_cast<int>(
                    std::clamp<Time>((deadline - now() + kMillisecond - 1) / kMillisecond, 0, INT_MAX));
        }
        const Others others = ask_kernel(room(), timeout);
        if (others.found < 0 && found == 0) return -1;
        found += std::max(others.found, 0);
        if (others.sockets) drain_sockets();
        if (stays) sleeper_.wake();  // for who polls the set's descriptor
        if (found > 0) return found;
        // Behind events of ours there may be others; no more than that, should one of ours stay (in a forked
        // child).
        if (last && (!others.woken || ++looks == kLooks)) return 0;
        last = nonblocking || (deadline != kNever && now() >= deadline);
    }
}

std::mutex sets_mutex;
std::unordered_map<int, std::shared_ptr<Epoll>>& sets() {
    static auto* all = new std::unordered_map<int, std::shared_ptr<Epoll>>;
    return *all;
}

std::shared_ptr<Epoll> find_set(int fd) {
    std::lock_guard lock(sets_mutex);
    auto found = sets().find(fd);
    return found == sets().end() ? nullptr : found->second;
}

}  // namespace

bool close_epoll(int fd) {
    std::shared_ptr<Epoll> set;
    std::lock_guard lock(sets_mutex);
    auto found = sets().find(fd);
    if (found == sets().end()) return false;
    set = std::move(found->second);
    sets().erase(found);
    return true;
}

}  // namespace verbena::rsocket

using namespace verbena;
using namespace verbena::rsocket;

extern "C" {

int repoll_create(int flags) {
    if (const Fault fault{"repoll_create"}) return fault.minus_one();
    Call call("repoll_create");
    const int fd = epoll_create1(flags);
    if (fd < 0) return fail_minus_one(errno, "no epoll set with flags %#x", flags);
    auto set = std::make_shared<Epoll>(fd);
    if (int error = set->start()) return fail_minus_one(error, "no epoll set");
    std::lock_guard lock(sets_mutex);
    auto& place = sets()[fd];
    if (place) place->lose_descriptor();
    place = std::move(set);
    return fd;
}

int repoll_ctl(int epoll, int operation, int fd, epoll_event* event) {
    if (const Fault fault{"repoll_ctl"}) return fault.minus_one();
    Call call("repoll_ctl");
    auto set = find_set(epoll);
    if (!set) return fail_minus_one(EBADF, "descriptor %d is none of repoll_create", epoll);
    const int error = set->control(operation, fd, event);
    if (error) errno = error;
    return error ? -1 : 0;
}

int repoll_wait(int epoll, epoll_event* events, int count, int timeout) {
    if (const Fault fault{"repoll_wait"}) return fault.minus_one();
    Call call("repoll_wait");
    auto set = find_set(epoll);
    if (!set) return fail_minus_one(EBADF, "descriptor %d is none of repoll_create", epoll);
    if (count <= 0) return fail_minus_one(EINVAL, "room for %d events", count);
    if (!events) return fail_minus_one(EFAULT, "nowhere to put the events");
    return set->wait({events, static_cast<std::size_t>(count)},
                     timeout < 0 ? kNever : now() + timeout * kMillisecond, timeout == 0);
}

}  // extern "C"
