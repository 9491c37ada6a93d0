#include "rspreload/registrations.h"

#include <rdma/rsocket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <iterator>
#include <mutex>
#include <optional>
#include <utility>

#include "rspreload/entries.h"
#include "rspreload/sets.h"

namespace verbena::rspreload {
namespace {

std::mutex mutex;  // the entries' registrations, and:
std::vector<Entry*>& connecting() {
    static auto* all = new std::vector<Entry*>;  // outlives the program's last calls
    return *all;
}
std::atomic<std::size_t> connecting_count{0};

}  // namespace

int control_registration(int set, int operation, int rs, int fd, epoll_event* event, Entry& entry) {
    // What is noted of the set, in place of what was.
    const auto note = [&](std::optional<Registration> wanted) {
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
    };
    std::optional<Registration> before;
    if (operation != EPOLL_CTL_DEL && event) before = note(Registration{set, serial_of(set), fd, *event});
    const int result = repoll_ctl(set, operation, rs, event);
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
        std::copy_if(entry->registrations.begin(), entry->registrations.end(), std::back_inserter(found),
                     [set](const Registration& each) { return each.set == set; });
    return found;
}

}  // namespace verbena::rspreload
