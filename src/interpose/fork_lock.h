// A lock that a fork finds free: before it all of them are taken, after it they are released on both sides,
// so that the child finds what they guard whole.
//
// Thread safety: all. Constant-initialized and never destroyed: programs call before our constructors and
// after our destructors have run.
#pragma once

#include <pthread.h>

namespace verbena::interpose {

class ForkLock {
   public:
    // Whoever holds an outer lock may take an inner one, and nothing else nests.
    enum class Order { outer, inner };
    constexpr explicit ForkLock(Order order = Order::inner) : order_(order) {}
    void lock();
    void unlock();

   private:
    friend struct ForkLocks;
    pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
    ForkLock* next_ = nullptr;  // of all that have been used
    bool known_ = false;
    const Order order_;
};

class Locked {
   public:
    explicit Locked(ForkLock& lock) : lock_(lock) { lock_.lock(); }
    ~Locked() { lock_.unlock(); }
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;

   private:
    ForkLock& lock_;
};

}  // namespace verbena::interpose
