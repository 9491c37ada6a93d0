#include "interpose/fork_lock.h"

namespace verbena::interpose {

// The locks that have been used, the outer ones first.
struct ForkLocks {
    static inline constinit pthread_mutex_t list = PTHREAD_MUTEX_INITIALIZER;
    static inline constinit ForkLock* first = nullptr;

    static void add(ForkLock& lock) {  // the caller has it
        pthread_mutex_lock(&list);
        if (!first) pthread_atfork(before, after, after);
        ForkLock** place = &first;
        while (*place && (*place)->order_ < lock.order_) place = &(*place)->next_;
        lock.next_ = *place;
        *place = &lock;
        pthread_mutex_unlock(&list);
    }
    static void before() {
        pthread_mutex_lock(&list);
        for (ForkLock* each = first; each; each = each->next_) pthread_mutex_lock(&each->mutex_);
    }
    static void after() {
        for (ForkLock* each = first; each; each = each->next_) pthread_mutex_unlock(&each->mutex_);
        pthread_mutex_unlock(&list);
    }
};

void ForkLock::lock() {
    pthread_mutex_lock(&mutex_);
    if (known_) [[likely]]
        return;
    known_ = true;
    // The list's lock comes before those in it.
    pthread_mutex_unlock(&mutex_);
    ForkLocks::add(*this);
    pthread_mutex_lock(&mutex_);
}

void ForkLock::unlock() { pthread_mutex_unlock(&mutex_); }

}  // namespace verbena::interpose
