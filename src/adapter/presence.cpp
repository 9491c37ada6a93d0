#include "adapter/presence.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

namespace verbena::adapter {

// The C library's list has its own offset from an entry to the word. It is for mutexes that a thread holds as
// it ends, and the thread that shows presence holds none.
Presence::Presence(std::atomic<std::uint32_t>& word)
    : word_(word), entry_{&list_.list}, list_{{&entry_}, 0, nullptr} {
    static_assert(sizeof word == sizeof(std::uint32_t));
    list_.futex_offset = reinterpret_cast<char*>(&word) - reinterpret_cast<char*>(&entry_);
    std::size_t size = 0;
    shows_ = syscall(SYS_get_robust_list, 0, &before_, &size) == 0 && size == sizeof list_ &&
             syscall(SYS_set_robust_list, &list_, sizeof list_) == 0;
    if (shows_) word_.store(static_cast<std::uint32_t>(gettid()), std::memory_order_release);
}

Presence::~Presence() {
    if (!shows_) return;
    word_.store(0, std::memory_order_release);
    syscall(SYS_set_robust_list, before_, sizeof list_);
}

}  // namespace verbena::adapter
