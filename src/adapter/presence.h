// Says in the exported tables that this process still has the memory that its peers know, and no longer says
// so once it has not. The word is a thread's, by its robust list (set_robust_list(2)): the kernel marks it
// when that thread ends, which is before its process gives its memory up, whether by exit(), by a signal or
// by exec(). So what was copied out of a process whose word is found as it was, afterwards, came from the
// memory that was meant, and not from another program's at the same address.
//
// Where the kernel has no such lists, as some emulators, the word stays 0, and peers ask in other ways.
//
// Thread safety: the constructor and the destructor are called by one thread, state() by any.
#pragma once

#include <linux/futex.h>

#include <atomic>
#include <cstdint>

namespace verbena::adapter {

class Presence {
   public:
    // The word is the calling thread's as long as this lives.
    explicit Presence(std::atomic<std::uint32_t>& word);
    ~Presence();
    Presence(const Presence&) = delete;
    Presence& operator=(const Presence&) = delete;

    enum class State : std::uint8_t { unknown, here, over };
    static State state(const std::atomic<std::uint32_t>& word) {
        const std::uint32_t value = word.load(std::memory_order_acquire);
        if (value & FUTEX_OWNER_DIED) return State::over;
        return value & FUTEX_TID_MASK ? State::here : State::unknown;
    }

   private:
    std::atomic<std::uint32_t>& word_;
    robust_list entry_;
    robust_list_head list_;
    void* before_ = nullptr;  // the thread's list, the C library's
    bool shows_;
};

}  // namespace verbena::adapter
