#include "rspreload/registrations.h"

#include <rdma/rsocket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <iterator>
#include <mutex>
#include <optional>
#include <utility>

#include "rspreload/entries.h"

namespace verbena::rspreload {
namespace {

struct Set {
    std::atomic<pid_t> owner;  // the process that made it; 0: none
    std::atomic<std::uint32_t> serial;
};
std::array<Set, kMostDescriptors> sets;

std::mutex mutex;  // the entries' registrations, and:
std::vector<Entry*>& connecting() {
    static auto* all = new std::vector<Entry*>;  // outlives the program's last calls
    return *all;
}
std::atomic<std::size_t> connecting_count{0};

Set* find_set(int fd) {
    return fd < 0 || static_cast<std::size_t>(fd) >= sets.size() ? nullptr
                                                                 : &sets[static_cast<std::size_t>(fd)];
}

}  // namespace

void remember_epoll(int fd) {
    Set* const set = find_set(fd);
    if (!set) return;
    set->serial.fetch_add(1);
    set->owner.store(getpid());
}

bool close_epoll(int fd) {
    Set* const set = find_set(fd);
    if (!set || set->owner.load(std::memory_order_relaxed) == 0) return false;
    set->serial.fetch_add(1);
    return set->owner.exchange(0) == getpid() && rclose(fd) == 0;
}

int control_registration(int epoll, int operation, int rs, int fd, epoll_event* event, Entry& entry) {
    const Set* const set = find_set(epoll);
    // What is noted of the set, in place of what was.
    const auto note = [&](std::optional<Registration> wanted) {
        std::optional<Registration> before;
        std::lock_guard lock(mutex);
        std::vector<Registration>& all = entry.registrations;
        const auto known = std::ranges::find(all, epoll, &Registration::epoll);
        if (known != all.end()) {
            before = *known;
            all.erase(known);
        }
        if (wanted) all.push_back(*wanted);
        return before;
    };
    std::optional<Registration> before;
    if (set && operation != EPOLL_CTL_DEL && event)
        before = note(Registration{epoll, set->serial.load(), fd, *event});
    const int result = repoll_ctl(epoll, operation, rs, event);
    if (!set) return result;
    if (result == 0 && operation == EPOLL_CTL_DEL) note(std::nullopt);
    if (result != 0 && operation != EPOLL_CTL_DEL) note(before);
    return result;
}

void move_registrations(int fd, Entry& entry) {
    std::vector<Registration> moved;
    {
        std::lock_guard lock(mutex);
        moved = std::exchange(entry.registrations, {});
    }
    const int before = errno;
    for (Registration& each : moved)
        if (repoll_ctl && find_set(each.epoll)->serial == each.serial)
            // The number by which it was registered may be a duplicate that was closed since.
            repoll_ctl(each.epoll, EPOLL_CTL_ADD, find(each.fd) == &entry ? each.fd : fd, &each.event);
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

std::vector<Registration> connecting_in(int epoll) {
    std::vector<Registration> found;
    if (connecting_count == 0) return found;
    std::lock_guard lock(mutex);
    for (const Entry* entry : connecting())
        std::copy_if(entry->registrations.begin(), entry->registrations.end(), std::back_inserter(found),
                     [epoll](const Registration& each) { return each.epoll == epoll; });
    return found;
}

}  // namespace verbena::rspreload
