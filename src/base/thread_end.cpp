#include "base/thread_end.h"

#include <pthread.h>

namespace verbena {

ThreadEnd::~ThreadEnd() {
    const int number = key_.exchange(kUnloaded);
    if (number < 0) return;
    const auto key = static_cast<pthread_key_t>(number);
    if (void* const value = pthread_getspecific(key)) ends_(value);
    pthread_key_delete(key);
}

int ThreadEnd::key() {
    int known = key_.load(std::memory_order_acquire);
    pthread_key_t fresh;
    if (known != kNone || pthread_key_create(&fresh, ends_) != 0) return known;
    if (key_.compare_exchange_strong(known, static_cast<int>(fresh))) return static_cast<int>(fresh);
    pthread_key_delete(fresh);
    return known;
}

bool ThreadEnd::await(void* value) {
    const int number = key();
    return number >= 0 && pthread_setspecific(static_cast<pthread_key_t>(number), value) == 0;
}

}  // namespace verbena
