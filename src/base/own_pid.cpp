#include "base/own_pid.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <new>

namespace verbena {
namespace {

using Page = std::atomic<pid_t>;  // the first bytes of one

// A page that a child, however it was forked, finds empty. nullptr: this kernel has none (before 4.14).
Page* make_page() {
    const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    // Emulators may say yes to any advice, and do nothing.
    if (madvise(memory, size, -1) != 0 && madvise(memory, size, MADV_WIPEONFORK) == 0)
        return new (memory) Page{0};
    munmap(memory, size);
    return nullptr;
}

// Two threads that come first at the same time make two; one is left unused.
std::atomic<Page*> page{nullptr};

}  // namespace

pid_t own_pid() {
    Page* known = page.load(std::memory_order_acquire);
    if (!known) [[unlikely]] {
        known = make_page();
        if (!known) return getpid();
        page.store(known, std::memory_order_release);
    }
    const pid_t pid = known->load(std::memory_order_relaxed);
    if (pid != 0) [[likely]]
        return pid;
    const pid_t asked = getpid();
    known->store(asked, std::memory_order_relaxed);
    return asked;
}

}  // namespace verbena
