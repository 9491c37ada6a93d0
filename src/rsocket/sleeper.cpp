#include "rsocket/sleeper.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/own_file.h"
#include "base/reason.h"
#include "base/signal_event.h"
#include "verbs/private.h"

namespace verbena::rsocket {

namespace {

constexpr Duration kNap = 5 * kMillisecond;

}  // namespace

Time now() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * kSecond + time.tv_nsec;
}

Sleeper::~Sleeper() {
    if (both_fd_ >= 0) close(both_fd_);
    if (event_fd_ >= 0) close(event_fd_);
}

int Sleeper::prepare() {
    if (event_fd_ < 0) event_fd_ = out_of_the_way(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    return event_fd_ < 0 ? fail(errno, "no descriptor to sleep on: %s", std::strerror(errno)) : 0;
}

int Sleeper::prepare_or_nap() {
    const int error = prepare();
    return is_want_of_descriptors(error) ? 0 : error;
}

void Sleeper::wake() {
    if (event_fd_ >= 0) signal_event(event_fd_);
}

void Sleeper::drain() const {
    if (event_fd_ >= 0) take_events(event_fd_);
}

Time Sleeper::wakes_at(Time deadline) const {
    return event_fd_ >= 0 ? deadline : std::min(deadline, now() + kNap);
}

int Sleeper::nap(int socket_fd, Time deadline, std::uint32_t events) const {
    pollfd entry{socket_fd, static_cast<short>(events), 0};  // poll's names have epoll's values
    const Duration most = std::clamp<Duration>(deadline - now(), 0, kNap);
    const timespec time{0, most};
    if (ppoll(&entry, 1, &time, nullptr) < 0) return errno;
    return now() < deadline ? 0 : ETIMEDOUT;
}

int Sleeper::sleep(ibv_context* context, int socket_fd, Time deadline, std::uint32_t events) {
    if (both_fd_ < 0) {
        if (event_fd_ >= 0) both_fd_ = out_of_the_way(epoll_create1(EPOLL_CLOEXEC));
        if (event_fd_ < 0 || (both_fd_ < 0 && is_want_of_descriptors(errno)))
            return nap(socket_fd, deadline, events);
        epoll_event event{EPOLLIN, {}};
        if (both_fd_ < 0 || epoll_ctl(both_fd_, EPOLL_CTL_ADD, event_fd_, &event) != 0)
            return fail(errno, "no descriptor to sleep on: %s", std::strerror(errno));
    }
    if (watched_ != socket_fd) {
        epoll_event event{events, {}};
        if (epoll_ctl(both_fd_, EPOLL_CTL_ADD, socket_fd, &event) != 0 && errno != EEXIST)
            return fail(errno, "descriptor %d cannot be waited for: %s", socket_fd, std::strerror(errno));
        watched_ = socket_fd;
    }
    return verbena_wait_readable(context, both_fd_, deadline);
}

}  // namespace verbena::rsocket
