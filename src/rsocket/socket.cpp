#include "rsocket/socket.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/own_file.h"
#include "base/reason.h"
#include "base/signal_event.h"
#include "rsocket/table.h"

namespace verbena::rsocket {

Socket::~Socket() {
    if (nudge_fd_ >= 0) ::close(nudge_fd_);
    if (fd_ >= 0) ::close(fd_);
}

int Socket::open() {
    fd_ = epoll_create1(EPOLL_CLOEXEC);
    nudge_fd_ = out_of_the_way(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (fd_ < 0 || nudge_fd_ < 0) return fail(errno, "no descriptor for a socket: %s", std::strerror(errno));
    constexpr std::size_t kThreads = 16;  // that wait for it at the same time; more of them need memory
    wakers_.reserve(kThreads);
    make_room_for(fd_);
    return watch(nudge_fd_, EPOLL_CTL_ADD);
}

int Socket::watch(int fd, int operation) {
    epoll_event event{EPOLLIN, {}};
    event.data.fd = fd;
    if (epoll_ctl(fd_, operation, fd, &event) != 0)
        return fail(errno, "watching descriptor %d: %s", fd, std::strerror(errno));
    return 0;
}

void Socket::add_waker(Waker& waker) {
    std::lock_guard lock(wakers_mutex_);
    wakers_.push_back(&waker);
    waiting_.fetch_add(1);
}

void Socket::remove_waker(const Waker& waker) {
    std::lock_guard lock(wakers_mutex_);
    auto found = std::find(wakers_.begin(), wakers_.end(), &waker);
    if (found == wakers_.end()) return;
    wakers_.erase(found);
    waiting_.fetch_sub(1);
}

void Socket::wake_all(const Waker* except) {
    if (waiting_.load() == 0) return;
    std::lock_guard lock(wakers_mutex_);
    for (Waker* waker : wakers_)
        if (waker != except) waker->wake();
}

void Socket::nudge() {
    signal_event(nudge_fd_);
    wake_all();
}

bool Socket::drain_nudge() { return take_events(nudge_fd_); }

void Socket::note_arrival(const Waker* except) {
    arrivals_.fetch_add(1);
    wake_all(except);
}

}  // namespace verbena::rsocket
