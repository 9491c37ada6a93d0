// The members of an epoll set. epoll_wait.cpp: waiting.
#include "rsocket/epoll_set.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <tuple>
#include <utility>

#include "base/own_file.h"
#include "base/reason.h"
#include "rsocket/epoll_marks.h"
#include "rsocket/table.h"

namespace verbena::rsocket {

EpollSet::Member::Member(Agenda& agenda, const std::shared_ptr<Socket>& whose, const epoll_event& wanted)
    : Entry(agenda), socket(whose), fd(whose->fd()), event(wanted) {
    whose->add_waker(*this);
}

EpollSet::Member::~Member() {
    if (auto known = socket.lock()) known->remove_waker(*this);
}

EpollSet::~EpollSet() {
    if (sockets_fd_ >= 0) ::close(sockets_fd_);
    if (fd_ >= 0) ::close(fd_);
}

int EpollSet::open(int flags) {
    fd_ = epoll_create1(flags);
    if (fd_ < 0) return fail_minus_one(errno, "no epoll set with flags %#x", flags);
    int error = agenda_.prepare();
    epoll_event event = marked(&agenda_);
    if (!error && epoll_ctl(fd_, EPOLL_CTL_ADD, agenda_.bell(), &event) != 0) error = errno;
    if (!error) error = watch_sockets();
    return error ? fail_minus_one(error, "no epoll set") : fd_;
}

int EpollSet::watch_sockets() {
    const int fresh = out_of_the_way(epoll_create1(EPOLL_CLOEXEC));
    epoll_event event = marked(&members_);
    if (fresh < 0 || epoll_ctl(fd_, EPOLL_CTL_ADD, fresh, &event) != 0) {
        const int error = errno;
        if (fresh >= 0) ::close(fresh);
        return fail(error, "no descriptor for the sockets of a set: %s", std::strerror(error));
    }
    sockets_fd_ = fresh;
    return 0;
}

// A socket that this process has closed and a forked child has not still stands in the kernel's set, speaks
// up, and cannot be named there any more.
void EpollSet::renew_sockets_set() {
    const int before = sockets_fd_;
    if (watch_sockets() != 0) return;
    for (const auto& [fd, member] : members_)
        if (!member.socket.expired()) add_to(sockets_fd_, fd);
    epoll_ctl(fd_, EPOLL_CTL_DEL, before, nullptr);
    ::close(before);
}

int EpollSet::control(int operation, int fd, const epoll_event* event) {
    std::lock_guard lock(mutex_);
    auto socket = find_socket(fd);
    auto known = members_.find(fd);
    if (known != members_.end() && known->second.socket.lock() != socket) {  // closed meanwhile
        forget(known->second);
        known = members_.end();
    }
    if (!socket) return ::epoll_ctl(fd_, operation, fd, const_cast<epoll_event*>(event)) == 0 ? 0 : errno;
    if (operation != EPOLL_CTL_DEL && !event) return fail(EFAULT, "the event is NULL");
    if (operation == EPOLL_CTL_ADD) {
        if (known != members_.end()) return fail(EEXIST, "descriptor %d is in the set", fd);
        return add(socket, *event);
    }
    if (operation != EPOLL_CTL_MOD && operation != EPOLL_CTL_DEL)
        return fail(EINVAL, "operation %d", operation);
    if (known == members_.end()) return fail(ENOENT, "descriptor %d is not in the set", fd);
    if (operation == EPOLL_CTL_MOD)
        modify(known->second, *event);
    else
        forget(known->second);
    return 0;
}

int EpollSet::add(const std::shared_ptr<Socket>& socket, const epoll_event& event) {
    if (int error = add_to(sockets_fd_, socket->fd())) return error;
    auto& member = members_
                       .emplace(std::piecewise_construct, std::forward_as_tuple(socket->fd()),
                                std::forward_as_tuple(agenda_, socket, event))
                       .first->second;
    agenda_.put(member);
    return 0;
}

void EpollSet::modify(Member& member, const epoll_event& event) {
    member.event = event;
    member.told = 0;
    member.spent = false;
    agenda_.put(member);
}

// The number is the socket's as long as that lives. A forked child has the kernel's sets in common with its
// parent, who still wants what is in them.
void EpollSet::forget(Member& member) {
    {
        auto socket = member.socket.lock();
        if (socket && pid_ == own_pid()) epoll_ctl(sockets_fd_, EPOLL_CTL_DEL, member.fd, nullptr);
    }
    members_.erase(member.fd);
}

}  // namespace verbena::rsocket
