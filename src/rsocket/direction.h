// One direction of a stream: one call at a time sends, or receives. A call that must not block does not wait
// for another thread's, which may sleep: it is refused (EAGAIN). But what it came for, an edge of an epoll
// set perhaps, may be there: the other thread, when it leaves, says that there may be something anew.
//
// Thread safety: all of it.
#pragma once

#include <atomic>
#include <mutex>

namespace verbena::rsocket {

class Direction {
   public:
    void lock() { mutex_.lock(); }
    // Refuses while another has it, who hears of that behind its unlock(): noted first, then tried once more.
    // Both write to the same word: either he finds the note, or we find the lock that he has left.
    bool try_lock() {
        if (mutex_.try_lock()) return true;
        refused_.exchange(true);
        return mutex_.try_lock();
    }
    void unlock() { mutex_.unlock(); }

    // After unlock(): somebody was refused.
    bool refused() { return refused_.exchange(false); }

   private:
    std::mutex mutex_;
    std::atomic<bool> refused_{false};
};

}  // namespace verbena::rsocket
