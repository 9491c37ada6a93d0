// poll, select and epoll of a program whose sockets may be rsockets.
#include <poll.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/borrowed.h"
#include "base/select_sets.h"
#include "rspreload/entries.h"
#include "rspreload/real.h"
#include "rspreload/registrations.h"

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

// A connection under way may end as the kernel's: then the wait begins anew with that.
int poll_all(pollfd* fds, nfds_t count, int timeout, const sigset_t* mask = nullptr) {
    verbena::Borrowed<std::vector<pollfd>> borrowed;
    std::vector<pollfd>& translated = *borrowed;
    for (;;) {
        translated.assign(fds, fds + count);
        bool connecting = false;
        for (pollfd& entry : translated) {
            const int rs = rsocket_of(entry.fd);
            if (rs < 0) continue;
            connecting |= find(entry.fd)->state == State::connecting;
            entry.fd = rs;
        }
        const int ready = [&] {
            const Masked masked(mask);
            return rpoll(translated.data(), count, timeout);
        }();
        if (ready > 0 && connecting) {
            bool again = false;
            for (nfds_t i = 0; i < count; i++) {
                Entry* entry = translated[i].revents ? find(fds[i].fd) : nullptr;
                if (entry && entry->state == State::connecting) again |= settle(fds[i].fd, *entry);
            }
            if (again) continue;
        }
        for (nfds_t i = 0; i < count; i++) fds[i].revents = translated[i].revents;
        return ready == 0 ? signal_or_nothing(mask) : ready;
    }
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
    const int fd = repoll_create(flags);
    remember_epoll(fd);
    return fd;
}

// A connection under way may end as the kernel's. Then the event that said so is of the rsocket that is no
// more, and the kernel's socket, which stands in the set now, will have one of its own.
int drop_settled(int epoll, epoll_event* events, int found) {
    std::vector<std::uint64_t> gone;
    for (const Registration& each : connecting_in(epoll)) {
        Entry* entry = find(each.fd);
        if (entry && entry->state == State::connecting && settle(each.fd, *entry))
            gone.push_back(each.event.data.u64);
    }
    const auto of_gone = [&gone](const epoll_event& event) {
        return event.events & (EPOLLERR | EPOLLHUP) &&
               std::find(gone.begin(), gone.end(), event.data.u64) != gone.end();
    };
    return gone.empty() ? found : static_cast<int>(std::remove_if(events, events + found, of_gone) - events);
}

// As poll_all: if nothing is left, the wait begins anew.
int wait_settled(int epoll, epoll_event* events, int count, int timeout, const sigset_t* mask) {
    for (;;) {
        const int found = [&] {
            const Masked masked(mask);
            return repoll_wait(epoll, events, count, timeout);
        }();
        if (found <= 0) return found;
        if (const int left = drop_settled(epoll, events, found)) return left;
    }
}

// Whether librdmacm made this epoll set.
template <class Ours, class Theirs>
int with_epoll(Ours ours, Theirs theirs) {
    const int before = errno;
    const int result = ours();
    if (result >= 0 || errno != EBADF) return result;
    errno = before;
    return theirs();
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
    return poll_all(fds, count, milliseconds(timeout), mask);
}

int __poll_chk(pollfd* fds, nfds_t count, int timeout, size_t) { return poll(fds, count, timeout); }
int __ppoll_chk(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* mask, size_t) {
    return ppoll(fds, count, timeout, mask);
}

int select(int count, fd_set* readable, fd_set* writable, fd_set* exceptional, timeval* timeout) {
    if (!any_entry(count, {readable, writable, exceptional}))
        return real().select(count, readable, writable, exceptional, timeout);
    timespec time{};
    if (timeout) time = {timeout->tv_sec, timeout->tv_usec * 1000};
    return select_all(count, readable, writable, exceptional, milliseconds(timeout ? &time : nullptr),
                      nullptr);
}

int pselect(int count, fd_set* readable, fd_set* writable, fd_set* exceptional, const timespec* timeout,
            const sigset_t* mask) {
    if (!any_entry(count, {readable, writable, exceptional}))
        return real().pselect(count, readable, writable, exceptional, timeout, mask);
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
    if (!repoll_ctl || is_library_code(__builtin_return_address(0)))
        return real().epoll_ctl(epoll, operation, fd, event);
    const int rs = rsocket_of(fd);
    const auto control = [&] {
        Entry* const entry = rs >= 0 ? find(fd) : nullptr;
        return entry ? control_registration(epoll, operation, rs, fd, event, *entry)
                     : repoll_ctl(epoll, operation, rs >= 0 ? rs : fd, event);
    };
    return with_epoll(control, [&] { return real().epoll_ctl(epoll, operation, fd, event); });
}

int epoll_wait(int epoll, epoll_event* events, int count, int timeout) {
    if (!repoll_wait || is_library_code(__builtin_return_address(0)))
        return kernel_epoll_wait(epoll, events, count, timeout);
    return with_epoll([&] { return wait_settled(epoll, events, count, timeout, nullptr); },
                      [&] { return real().epoll_wait(epoll, events, count, timeout); });
}

int epoll_pwait(int epoll, epoll_event* events, int count, int timeout, const sigset_t* mask) {
    const auto kernels = [&] { return real().epoll_pwait(epoll, events, count, timeout, mask); };
    if (!repoll_wait) return kernels();
    return with_epoll([&] { return wait_settled(epoll, events, count, timeout, mask); }, kernels);
}

}  // extern "C"
#pragma GCC visibility pop
