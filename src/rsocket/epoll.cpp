#include "rsocket/epoll.h"

#include <rdma/rsocket.h>
#include <sys/epoll.h>

#include <cerrno>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/call_fault.h"
#include "base/immortal.h"
#include "base/out_of_memory.h"
#include "base/reason.h"
#include "rsocket/epoll_set.h"

namespace verbena::rsocket {
namespace {

std::mutex sets_mutex;
std::unordered_map<int, std::shared_ptr<EpollSet>>& sets() {
    static Immortal<std::unordered_map<int, std::shared_ptr<EpollSet>>> all;
    return *all;
}

std::shared_ptr<EpollSet> find_set(int fd) {
    std::lock_guard lock(sets_mutex);
    auto found = sets().find(fd);
    return found == sets().end() ? nullptr : found->second;
}

}  // namespace

bool close_epoll(int fd) {
    std::shared_ptr<EpollSet> set;
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
    return minus_one_if_out_of_memory([flags] {
        auto set = std::make_shared<EpollSet>();
        const int fd = set->open(flags);
        if (fd < 0) return fd;
        std::lock_guard lock(sets_mutex);
        auto& place = sets()[fd];
        if (place) place->lose_descriptor();
        place = std::move(set);
        return fd;
    });
}

int repoll_ctl(int epoll, int operation, int fd, epoll_event* event) {
    if (const Fault fault{"repoll_ctl"}) return fault.minus_one();
    Call call("repoll_ctl");
    auto set = find_set(epoll);
    if (!set) return fail_minus_one(EBADF, "descriptor %d is none of repoll_create", epoll);
    const int error = unless_out_of_memory([&] { return set->control(operation, fd, event); });
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
    return minus_one_if_out_of_memory([&] {
        return set->wait({events, static_cast<std::size_t>(count)},
                         timeout < 0 ? kNever : now() + timeout * kMillisecond, timeout == 0);
    });
}

}  // extern "C"
