#include "rspreload/sets.h"

#include <rdma/rsocket.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>

#include "base/no_cancellation.h"
#include "base/own_pid.h"
#include "rspreload/entries.h"
#include "rspreload/real.h"

namespace verbena::rspreload {
namespace {

struct Set {
    std::atomic<pid_t> owner;  // the process that made it
    std::atomic<int> references;
    std::atomic<std::uint32_t> serial;
};
std::array<Set, kMostDescriptors> sets;                  // by librdmacm's numbers
std::array<std::atomic<int>, kMostDescriptors> numbers;  // by the program's: that number and 1, or 0

bool fits(int fd) { return fd >= 0 && static_cast<std::size_t>(fd) < kMostDescriptors; }
std::atomic<int>& number(int fd) { return numbers[static_cast<std::size_t>(fd)]; }
Set& at(int set) { return sets[static_cast<std::size_t>(set)]; }

// One number less; -1: it had none.
void leave(int set) {
    if (set < 0 || at(set).references.fetch_sub(1) != 1) return;
    const NoCancellation whole;
    at(set).serial.fetch_add(1);
    if (at(set).owner.load() == getpid())
        rclose(set);
    else
        real().close(set);  // a forked child's copy of the descriptor
}

}  // namespace

int set_of(int fd) { return fits(fd) ? number(fd).load(std::memory_order_acquire) - 1 : -1; }

std::uint32_t serial_of(int set) { return at(set).serial.load(); }

bool insert_set(int fd, int set) {
    if (!fits(fd) || !fits(set)) return false;
    at(set).owner.store(own_pid());
    at(set).references.store(1);
    at(set).serial.fetch_add(1);
    number(fd).store(set + 1, std::memory_order_release);
    return true;
}

bool share_set(int from, int to) {
    const int set = set_of(from);
    if (set < 0 || !fits(to) || is_vfork_child()) return false;
    at(set).references.fetch_add(1);
    leave(number(to).exchange(set + 1) - 1);
    return true;
}

void remove_set(int fd) {
    if (set_of(fd) >= 0 && !is_vfork_child()) leave(number(fd).exchange(0) - 1);
}

}  // namespace verbena::rspreload
