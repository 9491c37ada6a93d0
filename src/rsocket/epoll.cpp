#include "rsocket/epoll.h"

#include <poll.h>
#include <rdma/rsocket.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <unordered_map>

#include "base/call_fault.h"
#include "base/reason.h"
#include "rsocket/table.h"

namespace verbena::rsocket {
namespace {

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
        epoll_event event{EPOLLIN, {}};
        event.data.u64 = kSleeper;
        return epoll_ctl(fd_, EPOLL_CTL_ADD, sleeper_.fd(), &event) == 0 ? 0 : errno;
    }

    int control(int operation, int fd, const epoll_event* event);
    int wait(std::span<epoll_event> events, Time deadline, bool nonblocking);

   private:
    static constexpr std::uint64_t kSleeper = UINT64_MAX, kSocket = UINT64_MAX - 1;
    struct Member {
        std::weak_ptr<Socket> socket;  // nothing: another descriptor
        epoll_event event{};
        short told = 0;      // EPOLLET: what was reported and still holds
        bool spent = false;  // EPOLLONESHOT
    };
    using Members = std::map<int, Member>;  // rsockets
    int collect(std::span<epoll_event> events);
    Members::iterator forget(Members::iterator member);

    int fd_;
    Sleeper sleeper_;
    std::mutex mutex_;
    Members members_;
    int last_ = -1;  // fairness: the next look begins behind it
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
            epoll_event inner{EPOLLIN, {}};
            inner.data.u64 = kSocket;
            if (::epoll_ctl(fd_, EPOLL_CTL_ADD, fd, &inner) != 0 && errno != EEXIST) return errno;
            members_[fd] = {socket, *event, 0, false};
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

int Epoll::collect(std::span<epoll_event> events) {
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
        const short ready = socket->readiness(wanted);
        socket->arm();
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
        auto& event = events[static_cast<std::size_t>(found++)];
        event.events = static_cast<std::uint16_t>(ready);
        event.data = member.event.data;
    }
    return found;
}

int Epoll::wait(std::span<epoll_event> events, Time deadline, bool nonblocking) {
    std::vector<epoll_event> kernel(events.size() + 64);
    for (;;) {
        sleeper_.drain();
        int found = collect(events);
        int timeout = 0;
        if (found == 0 && !nonblocking) {
            timeout = -1;
            if (deadline != kNever)
                timeout = static_cast<int>(
                    std::clamp<Time>((deadline - now() + kMillisecond - 1) / kMillisecond, 0, INT_MAX));
        }
        const int count = ::epoll_wait(fd_, kernel.data(), static_cast<int>(kernel.size()), timeout);
        if (count < 0 && found == 0) return -1;
        bool sockets = false;
        for (int i = 0; i < count; i++) {
            const epoll_event& event = kernel[static_cast<std::size_t>(i)];
            if (event.data.u64 == kSleeper) continue;
            if (event.data.u64 == kSocket)
                sockets = true;
            else if (found < static_cast<int>(events.size()))
                events[static_cast<std::size_t>(found++)] = event;
        }
        if (sockets) {
            // What woke us is taken away; other threads that sleep on it are told by drain().
            std::lock_guard lock(mutex_);
            for (auto& [fd, member] : members_) {
                auto socket = member.socket.lock();
                if (!socket) continue;
                pollfd look{fd, POLLIN, 0};
                if (::poll(&look, 1, 0) > 0) {
                    socket->drain();
                    member.told = 0;  // something new came: an edge
                }
            }
        }
        if (found > 0 || nonblocking) return found;
        if (deadline != kNever && now() >= deadline) return collect(events);
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
