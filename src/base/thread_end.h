// Something of a thread's that is given back when the thread ends. In place of a thread_local object with a
// destructor: to register that takes memory, without which the C library ends the program, and it keeps the
// library loaded.
//
// Thread safety: all calls. No lock, which a child made by fork(2) might find taken.
#pragma once

#include <atomic>

namespace verbena {

// A static object of a function that is called when it is needed: nothing of ours runs when the library is
// loaded.
class ThreadEnd {
   public:
    using Ends = void (*)(void* value);
    constexpr explicit ThreadEnd(Ends ends) : ends_(ends) {}
    // Before the library is unloaded, and `ends` with it: called for this thread, and for no other any more.
    ~ThreadEnd();
    ThreadEnd(const ThreadEnd&) = delete;
    ThreadEnd& operator=(const ThreadEnd&) = delete;

    // `ends(value)`, which is not nullptr, will be called when this thread ends. False: it will not.
    bool await(void* value);

   private:
    enum : int { kNone = -1, kUnloaded = -2 };
    int key();  // negative: there is none

    const Ends ends_;
    std::atomic<int> key_{kNone};
};

}  // namespace verbena
