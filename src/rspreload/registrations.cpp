#include "rspreload/registrations.h"

#include <pthread.h>
#include <rdma/rsocket.h>
#include <sys/timerfd.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <optional>
#include <utility>

#include "base/own_file.h"
#include "rspreload/entries.h"
#include "rspreload/real.h"
#include "rspreload/sets.h"

namespace verbena::rspreload {
namespace {

std::mutex mutex;  // the entries' registrations, and connecting()
// Held for some instructions only, so fork() waits for it, and a child finds it free and what it guards
// whole.
[[maybe_unused]] const int at_fork =
    pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); }, [] { mutex.unlock(); });

std::vector<Entry*>& connecting() {
    static auto* all = new std::vector<Entry*>;  // outlives the program's last calls
    return *all;
}
std::atomic<std::size_t> connecting_count{0};

// What is noted of a set, in place of what was.
std::optional<Registration> note(Entry& entry, int set, std::optional<Registration> wanted) {
    std::optional<Registration> before;
    std::lock_guard lock(mutex);
    std::vector<Registration>& all = entry.registrations;
    const auto known = std::ranges::find(all, set, &Registration::set);
    if (known != all.end()) {
        before = *known;
        all.erase(known);
    }
    if (wanted) all.push_back(*wanted);
    return before;
}

// Ends with the entry, or when it is settled.
void start_timer(Entry& entry, int set, const epoll_event& event) {
    if (entry.timer < 0) {
        entry.timer = out_of_the_way(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
        itimerspec when{};
        when.it_value = {entry.deadline / 1000, entry.deadline % 1000 * 1'000'000L};
        timerfd_settime(entry.timer, TFD_TIMER_ABSTIME, &when, nullptr);
    }
    epoll_event ends{EPOLLIN, event.data};
    if (repoll_ctl(set, EPOLL_CTL_ADD, entry.timer, &ends) != 0)
        repoll_ctl(set, EPOLL_CTL_MOD, entry.timer, &ends);
}

// Who does not wait to write gives nothing up at the timer's end, and would hear of it again and again.
void stop_timer(const Entry& entry, int set) {
    if (entry.timer < 0) return;
    const int before = errno;
    epoll_event ignored{};
    repoll_ctl(set, EPOLL_CTL_DEL, entry.timer, &ignored);
    errno = before;
}

}  // namespace

int control_registration(int set, int operation, int rs, int fd, epoll_event* event, Entry& entry) {
    std::optional<Registration> before;
    if (operation != EPOLL_CTL_DEL && event)
        before = note(entry, set, Registration{set, serial_of(set), fd, *event});
    const int result = repoll_ctl(set, operation, rs, event);
    if (result == 0 && operation == EPOLL_CTL_DEL) note(entry, set, std::nullopt);
    if (result != 0 && operation != EPOLL_CTL_DEL) note(entry, set, before);
    return result;
}

void make_pending(Entry& entry) {
    std::vector<Registration> all;
    {
        std::lock_guard lock(mutex);
        all = entry.registrations;
    }
    const int before = errno;
    for (Registration& each : all)
        if (serial_of(each.set) == each.serial)
            control_pending(each.set, EPOLL_CTL_MOD, each.fd, &each.event, entry);
    errno = before;
}

int control_pending(int set, int operation, int fd, epoll_event* event, Entry& entry) {
    if (operation == EPOLL_CTL_DEL || !event) {
        const int result = repoll_ctl(set, operation, fd, event);
        if (result == 0) note(entry, set, std::nullopt);
        stop_timer(entry, set);
        return result;
    }
    epoll_event for_us = *event;
    for_us.events = EPOLLIN;
    const std::optional<Registration> before =
        note(entry, set, Registration{set, serial_of(set), fd, *event});
    if (!entry.pending.exchange(true)) begin_connecting(entry);
    const int result = repoll_ctl(set, operation, fd, &for_us);
    if (result != 0)
        note(entry, set, before);
    else if (event->events & EPOLLOUT)
        start_timer(entry, set, *event);
    else
        stop_timer(entry, set);
    return result;
}

void settle_pending(int fd, Entry& entry, int rs) {
    if (!entry.pending.exchange(false)) return;
    end_connecting(entry);
    std::vector<Registration> all;
    {
        std::lock_guard lock(mutex);
        all = entry.registrations;
        // One that failed to connect may be connected yet.
        if (rs < 0 && entry.state.load() != State::fork_idle) entry.registrations.clear();
    }
    const int before = errno;
    for (Registration& each : all) {
        if (serial_of(each.set) != each.serial) continue;
        const int kernels = find(each.fd) == &entry ? each.fd : fd;
        stop_timer(entry, each.set);
        if (rs < 0) {
            repoll_ctl(each.set, EPOLL_CTL_MOD, kernels, &each.event);
            continue;
        }
        repoll_ctl(each.set, EPOLL_CTL_DEL, kernels, &each.event);
        repoll_ctl(each.set, EPOLL_CTL_ADD, rs, &each.event);
    }
    if (const int timer = std::exchange(entry.timer, -1); timer >= 0) real().close(timer);
    errno = before;
}

void move_registrations(int fd, Entry& entry) {
    std::vector<Registration> moved;
    {
        std::lock_guard lock(mutex);
        moved = std::exchange(entry.registrations, {});
    }
    const int before = errno;
    for (Registration& each : moved)
        if (repoll_ctl && serial_of(each.set) == each.serial)
            // The number by which it was registered may be a duplicate that was closed since.
            repoll_ctl(each.set, EPOLL_CTL_ADD, find(each.fd) == &entry ? each.fd : fd, &each.event);
    errno = before;
}

void begin_connecting(Entry& entry) {
    std::lock_guard lock(mutex);
    connecting().push_back(&entry);
    connecting_count = connecting().size();
}

void end_connecting(Entry& entry) {
    if (connecting_count == 0) return;
    std::lock_guard lock(mutex);
    std::erase(connecting(), &entry);
    connecting_count = connecting().size();
}

std::vector<Registration> connecting_in(int set) {
    std::vector<Registration> found;
    if (connecting_count == 0) return found;
    std::lock_guard lock(mutex);
    for (const Entry* entry : connecting())
        for (Registration each : entry->registrations) {
            if (each.set != set) continue;
            each.for_us = entry->pending;
            found.push_back(each);
        }
    return found;
}

void tell_again(const Registration& registration) {
    const Held entry(registration.fd);
    if (!entry || serial_of(registration.set) != registration.serial) return;
    const int before = errno;
    std::lock_guard lock(entry->migrating);
    const int rs = entry->rs.load();
    epoll_event event = registration.event;
    if (!entry->pending) repoll_ctl(registration.set, EPOLL_CTL_MOD, rs >= 0 ? rs : registration.fd, &event);
    errno = before;
}

}  // namespace verbena::rspreload
