#include "rspreload/registrations.h"

#include <rdma/rsocket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <iterator>
#include <mutex>
#include <utility>

#include "rspreload/entries.h"

extern "C" {
[[gnu::weak]] int repoll_ctl(int epoll, int operation, int fd, epoll_event* event);
}

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

void note_registration(int epoll, int operation, int fd, const epoll_event* event, Entry& entry) {
    const Set* const set = find_set(epoll);
    if (!set) return;
    std::lock_guard lock(mutex);
    const auto same = [epoll](const Registration& known) { return known.epoll == epoll; };
    std::erase_if(entry.registrations, same);
    if (operation != EPOLL_CTL_DEL) entry.registrations.push_back({epoll, set->serial.load(), fd, *event});
}

void move_registrations(Entry& entry) {
    std::vector<Registration> moved;
    {
        std::lock_guard lock(mutex);
        moved = std::exchange(entry.registrations, {});
    }
    const int before = errno;
    for (Registration& each : moved)
        if (repoll_ctl && find_set(each.epoll)->serial == each.serial)
            repoll_ctl(each.epoll, EPOLL_CTL_ADD, each.fd, &each.event);
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
