// For tests: whether a piece of work has points of cancellation.
#pragma once

#include <pthread.h>

#include <thread>

namespace verbena {

// Cancelled before it begins: the first point of cancellation ends it.
template <class Work>
bool is_through_although_cancelled(Work work) {
    bool through = false;
    std::thread([&] {
        pthread_cancel(pthread_self());
        work();
        through = true;
        pthread_testcancel();
        through = false;
    }).join();
    return through;
}

}  // namespace verbena
