// poll, select and epoll of a program whose sockets may be rsockets.
#include <fcntl.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "base/borrowed.h"
#include "base/select_sets.h"
#include "rspreload/entries.h"
#include "rspreload/real.h"
#include "rspreload/registrations.h"
#include "rspreload/sets.h"

// Of the head of rdma-core; an older librdmacm has none, and epoll sets then know the kernel's sockets only.
extern "C" {
[[gnu::weak]] int repoll_create(int flags);
[[gnu::weak]] int repoll_wait(int epoll, epoll_event* events, int count, int timeout);
}

using namespace verbena::rspreload;

namespace {

// The signal mask of the program's call while librdmacm waits for it. librdmacm's calls take none, but wait
// by the names defined here: so the kernel gets it with the one call that waits, and changes masks as one.
thread_local const sigset_t* waiting_mask = nullptr;

class Masked {
   public:
    explicit Masked(const sigset_t* mask) : before_(std::exchange(waiting_mask, mask)) {}
    ~Masked() { waiting_mask = before_; }
    Masked(const Masked&) = delete;
    Masked& operator=(const Masked&) = delete;

   private:
    const sigset_t* const before_;
};

// For a call of the kernel; a handler that runs meanwhile waits with a mask of its own.
class TakenMask {
   public:
    ~TakenMask() { waiting_mask = mask_; }
    TakenMask() = default;
    TakenMask(const TakenMask&) = delete;
    TakenMask& operator=(const TakenMask&) = delete;
    const sigset_t* get() const { return mask_; }

   private:
    const sigset_t* const mask_ = std::exchange(waiting_mask, nullptr);
};

timespec time_of(int milliseconds) { return {milliseconds / 1000, milliseconds % 1000 * 1'000'000L}; }

int kernel_poll(pollfd* fds, nfds_t count, int timeout) {
    if (!waiting_mask || timeout == 0) return real().poll(fds, count, timeout);
    const TakenMask mask;
    const timespec time = time_of(timeout);
    return real().ppoll(fds, count, timeout < 0 ? nullptr : &time, mask.get());
}

int kernel_ppoll(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* mask) {
    const bool looks = timeout && timeout->tv_sec == 0 && timeout->tv_nsec == 0;
    if (!waiting_mask || looks) return real().ppoll(fds, count, timeout, mask);
    const TakenMask taken;
    return real().ppoll(fds, count, timeout, taken.get());
}

int kernel_epoll_wait(int epoll, epoll_event* events, int count, int timeout) {
    if (!waiting_mask || timeout == 0) return real().epoll_wait(epoll, events, count, timeout);
    const TakenMask mask;
    return real().epoll_pwait(epoll, events, count, timeout, mask.get());
}

// Nothing is ready: then a signal that has come is, also for those who do not wait.
int signal_or_nothing(const sigset_t* mask) {
    const timespec now{};
    return mask ? real().ppoll(nullptr, 0, &now, mask) : 0;
}

bool any_entry(const pollfd* fds, nfds_t count) {
    return std::any_of(fds, fds + count, [](const pollfd& entry) { return find(entry.fd) != nullptr; });
}

// A program's set as librdmacm is asked for it. Connections change while they are waited for: one under way
// may end as the kernel's, and one of a program that forks may become a rsocket.
class Translated {
   public:
    Translated(pollfd* fds, nfds_t count) : fds_(fds), count_(count), all_(*borrowed_) {
        all_.assign(fds, fds + count);
        for (nfds_t i = 0; i < count; i++) translate(i);
    }

    int wait(int timeout, const sigset_t* mask) {
        const Masked masked(mask);
        const int ready = rpoll(all_.data(), count_, parents_ > 0 ? 0 : shorter(timeout, patience_));
        return ready < 0 ? ready : ready + parents_;
    }
    // The wait was not for all that was asked.
    bool ends_early(int timeout) const { return patience_ >= 0 && shorter(timeout, patience_) != timeout; }
    // Whether the wait begins anew, since something has changed.
    bool has_changed() {
        bool changed = false;
        for (nfds_t i = 0; i < count_; i++) {
            if (!all_[i].revents) continue;
            const Held entry(fds_[i].fd);
            if (!entry) continue;
            if (entry->state == State::connecting) changed |= settle(fds_[i].fd, *entry);
            changed |= is_stale(i, *entry);
            if (entry->state == State::fork_late)
                changed |= rsocket_for(fds_[i].fd, Use::look) == kNotYet && only_reads(i);
        }
        return changed;
    }
    void answer() {
        for (nfds_t i = 0; i < count_; i++)
            fds_[i].revents = is_parents(i) ? fails(fds_[i]) : all_[i].revents;
    }

   private:
    static constexpr int kParents = -2;  // a parent's rsocket (entries.h), for which nobody waits

    bool is_parents(nfds_t i) const { return all_[i].fd == kParents && fds_[i].fd >= 0; }
    // Whatever is done with a connection tells of its failure. Who waits for a listener would do so for ever.
    static short fails(const pollfd& entry) {
        const Held held(entry.fd);
        if (held && held->listens) return POLLNVAL;
        constexpr short kAsked = POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM;
        return static_cast<short>((entry.events & kAsked) | POLLERR | POLLHUP);
    }
    static int shorter(int timeout, int other) {
        return timeout < 0 || (other >= 0 && other < timeout) ? other : timeout;
    }

    void set_aside_if_parents(pollfd& entry) {
        const Held held(entry.fd);
        if (!held || !is_of_a_parent(*held)) return;
        entry.fd = kParents;
        parents_++;
    }
    void translate(nfds_t i) {
        pollfd& entry = all_[i];
        const int rs = rsocket_for(entry.fd, entry.events & POLLOUT ? Use::ready : Use::look);
        if (rs >= 0) entry.fd = rs;
        if (rs == kPlain) return set_aside_if_parents(entry);
        if (rs != kNotYet) return;
        const Held held(entry.fd);
        if (!held || held->state != State::fork_active) return;
        if (entry.events & POLLOUT)
            patience_ = shorter(patience_, std::max(milliseconds_until(held->deadline), 1));
        entry.events = POLLIN;
    }
    // What was told is not of what the descriptor stands for now: another thread may have taken it over, or
    // what was asked was for us to hear.
    bool is_stale(nfds_t i, const Entry& entry) const {
        const int rs = entry.rs;
        return entry.state == State::fork_active || all_[i].fd != (rs >= 0 ? rs : fds_[i].fd) ||
               all_[i].events != fds_[i].events;
    }
    // A word was all that had come.
    bool only_reads(nfds_t i) {
        all_[i].revents &= static_cast<short>(~(POLLIN | POLLRDNORM));
        return all_[i].revents == 0;
    }

    pollfd* const fds_;
    const nfds_t count_;
    verbena::Borrowed<std::vector<pollfd>> borrowed_;
    std::vector<pollfd>& all_;
    int patience_ = -1;
    int parents_ = 0;
};

int poll_all(pollfd* fds, nfds_t count, int timeout, const sigset_t* mask = nullptr) {
    const std::int64_t deadline = timeout > 0 ? milliseconds_now() + timeout : 0;
    for (;;) {
        Translated set(fds, count);
        const int left = timeout > 0 ? milliseconds_until(deadline) : timeout;
        const int ready = set.wait(left, mask);
        if (ready == 0 && set.ends_early(left)) continue;
        if (ready > 0 && set.has_changed()) continue;
        set.answer();
        return ready == 0 ? signal_or_nothing(mask) : ready;
    }
}

bool is_time(const timespec& time) {
    return time.tv_sec >= 0 && time.tv_nsec >= 0 && time.tv_nsec < 1'000'000'000;
}

int wrong_time() {
    errno = EINVAL;
    return -1;
}

int milliseconds(const timespec* time) {
    if (!time) return -1;
    const long long ms = time->tv_sec * 1000LL + (time->tv_nsec + 999'999) / 1'000'000;
    return static_cast<int>(std::min<long long>(ms, INT_MAX));
}

bool any_entry(int count, std::initializer_list<const fd_set*> sets) {
    for (int fd = 0; fd < count; fd++)
        for (const fd_set* set : sets)
            if (set && FD_ISSET(fd, set) && find(fd)) return true;
    return false;
}

int select_all(int count, fd_set* readable, fd_set* writable, fd_set* exceptional, int timeout,
               const sigset_t* mask) {
    const verbena::SelectSets sets{readable, writable, exceptional};
    std::vector<pollfd> fds = sets.entries(count);
    const int ready = poll_all(fds.data(), fds.size(), timeout, mask);
    if (ready < 0) return ready;
    const auto bits = sets.answer(fds);
    if (!bits) errno = EBADF;
    return bits.value_or(-1);
}

int create_epoll(int flags, const void* caller) {
    if (!repoll_create || is_library_code(caller)) return real().epoll_create1(flags);
    const int fd = real().epoll_create1(flags);
    if (fd < 0) return fd;
    const int set = repoll_create(EPOLL_CLOEXEC);
    if (set < 0) {
        const int error = errno;
        real().close(fd);
        errno = error;
        return -1;
    }
    // The number stands for librdmacm's set now; without one of ours it stays the kernel's.
    remove(fd);
    remove_set(fd);
    if (insert_set(fd, set))
        real().dup3(set, fd, flags & EPOLL_CLOEXEC ? O_CLOEXEC : 0);
    else
        rclose(set);
    return fd;
}

// What was told of a connection that was not settled when the wait began, or ended, was for us, whatever it
// becomes. Of what it is now the program hears anew.
void take_for_us(const Registration& registration) {
    const Held entry(registration.fd);
    if (!entry) return;
    if (entry->state == State::fork_active)
        rsocket_for(registration.fd, registration.event.events & EPOLLOUT ? Use::ready : Use::look);
    else if (registration.event.events & (EPOLLET | EPOLLONESHOT))
        tell_again(registration);
}

// A connection under way may end as the kernel's. Then the event that said so is of the rsocket that is no
// more, and the kernel's socket, which stands in the set now, will have one of its own.
bool has_gone(const Registration& registration) {
    const Held entry(registration.fd);
    return entry && entry->state == State::connecting && settle(registration.fd, *entry);
}

int drop_settled(const std::vector<Registration>& under_way, epoll_event* events, int found) {
    epoll_event* end = events + found;
    for (const Registration& each : under_way) {
        const auto is_of = [&](const epoll_event& event) { return event.data.u64 == each.event.data.u64; };
        if (!each.for_us && has_gone(each))
            end = std::remove_if(events, end, [&](const epoll_event& event) {
                return is_of(event) && event.events & (EPOLLERR | EPOLLHUP);
            });
        if (each.for_us && std::any_of(events, end, is_of)) {
            take_for_us(each);
            end = std::remove_if(events, end, is_of);
        }
    }
    return static_cast<int>(end - events);
}

// As poll_all: if nothing is left, the wait begins anew, and at its end there is one more look.
int wait_settled(int set, epoll_event* events, int count, int timeout, const sigset_t* mask) {
    const std::int64_t deadline = timeout > 0 ? milliseconds_now() + timeout : 0;
    for (bool last = false;;) {
        const int left_ms = timeout > 0 ? milliseconds_until(deadline) : timeout;
        std::vector<Registration> under_way = connecting_in(set);
        const int found = [&] {
            const Masked masked(mask);
            return repoll_wait(set, events, count, left_ms);
        }();
        if (found <= 0) return found;
        const std::vector<Registration> more = connecting_in(set);
        under_way.insert(under_way.end(), more.begin(), more.end());
        if (const int left = drop_settled(under_way, events, found)) return left;
        if (left_ms == 0 && std::exchange(last, true)) return 0;
    }
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int poll(pollfd* fds, nfds_t count, int timeout) {
    if (!fds || !any_entry(fds, count) || is_library_code(__builtin_return_address(0)))
        return kernel_poll(fds, count, timeout);
    return poll_all(fds, count, timeout);
}

int ppoll(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* mask) {
    if (!fds || !any_entry(fds, count) || is_library_code(__builtin_return_address(0)))
        return kernel_ppoll(fds, count, timeout, mask);
    if (timeout && !is_time(*timeout)) return wrong_time();
    return poll_all(fds, count, milliseconds(timeout), mask);
}

int __poll_chk(pollfd* fds, nfds_t count, int timeout, size_t) { return poll(fds, count, timeout); }
int __ppoll_chk(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* mask, size_t) {
    return ppoll(fds, count, timeout, mask);
}

int select(int count, fd_set* readable, fd_set* writable, fd_set* exceptional, timeval* timeout) {
    if (!any_entry(count, {readable, writable, exceptional}))
        return real().select(count, readable, writable, exceptional, timeout);
    if (!timeout) return select_all(count, readable, writable, exceptional, -1, nullptr);
    if (timeout->tv_sec < 0 || timeout->tv_usec < 0) return wrong_time();
    const timespec time{timeout->tv_sec + timeout->tv_usec / 1'000'000, timeout->tv_usec % 1'000'000 * 1000};
    timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    const int ready = select_all(count, readable, writable, exceptional, milliseconds(&time), nullptr);
    clock_gettime(CLOCK_MONOTONIC, &end);
    // As Linux: what was left.
    const long long nanoseconds = (begin.tv_sec + time.tv_sec - end.tv_sec) * 1'000'000'000LL +
                                  begin.tv_nsec + time.tv_nsec - end.tv_nsec;
    const long long left = std::max(nanoseconds / 1000, 0LL);
    *timeout = {left / 1'000'000, static_cast<suseconds_t>(left % 1'000'000)};
    return ready;
}

int pselect(int count, fd_set* readable, fd_set* writable, fd_set* exceptional, const timespec* timeout,
            const sigset_t* mask) {
    if (!any_entry(count, {readable, writable, exceptional}))
        return real().pselect(count, readable, writable, exceptional, timeout, mask);
    if (timeout && !is_time(*timeout)) return wrong_time();
    return select_all(count, readable, writable, exceptional, milliseconds(timeout), mask);
}

int epoll_create(int size) {
    if (size <= 0) {
        errno = EINVAL;
        return -1;
    }
    return create_epoll(0, __builtin_return_address(0));
}
int epoll_create1(int flags) { return create_epoll(flags, __builtin_return_address(0)); }

int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) {
    const int set = set_of(epoll);
    if (set < 0 || !repoll_ctl || is_library_code(__builtin_return_address(0)))
        return real().epoll_ctl(epoll, operation, fd, event);
    const int rs = rsocket_for(fd, Use::look);
    const Held entry(fd);
    if (entry && is_of_a_parent(*entry) && operation != EPOLL_CTL_DEL) {
        errno = EBADF;
        return -1;
    }
    // One that will connect: the sets are to be found then.
    if (entry && entry->state == State::fork_idle)
        return control_registration(set, operation, fd, fd, event, *entry);
    if (entry && rs == kNotYet) {
        std::unique_lock lock(entry->migrating);
        if (entry->state == State::fork_active) return control_pending(set, operation, fd, event, *entry);
        lock.unlock();
        const int now = rsocket_of(fd);
        return now >= 0 ? control_registration(set, operation, now, fd, event, *entry)
                        : repoll_ctl(set, operation, fd, event);
    }
    return entry && rs >= 0 ? control_registration(set, operation, rs, fd, event, *entry)
                            : repoll_ctl(set, operation, rs >= 0 ? rs : fd, event);
}

int epoll_wait(int epoll, epoll_event* events, int count, int timeout) {
    const int set = set_of(epoll);
    if (set < 0 || !repoll_wait || is_library_code(__builtin_return_address(0)))
        return kernel_epoll_wait(epoll, events, count, timeout);
    return wait_settled(set, events, count, timeout, nullptr);
}

int epoll_pwait(int epoll, epoll_event* events, int count, int timeout, const sigset_t* mask) {
    const int set = set_of(epoll);
    if (set < 0 || !repoll_wait) return real().epoll_pwait(epoll, events, count, timeout, mask);
    return wait_settled(set, events, count, timeout, mask);
}

int epoll_pwait2(int epoll, epoll_event* events, int count, const timespec* timeout, const sigset_t* mask) {
    const int set = set_of(epoll);
    if (set >= 0 && repoll_wait) {
        if (timeout && !is_time(*timeout)) return wrong_time();
        return wait_settled(set, events, count, milliseconds(timeout), mask);
    }
    if (real().epoll_pwait2) return real().epoll_pwait2(epoll, events, count, timeout, mask);
    errno = ENOSYS;
    return -1;
}

}  // extern "C"
#pragma GCC visibility pop
