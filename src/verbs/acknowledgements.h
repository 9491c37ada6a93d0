// Objects whose events a program took are not destroyed before it has acknowledged them (ibv_get_cq_event(3),
// ibv_ack_async_event(3)). Programs that forget one hang there, so a wait that lasts is said.
#pragma once

#include <pthread.h>

#include <ctime>

#include "base/reason.h"

namespace verbena::verbs {

// `outstanding()`: how many are missing, called under the mutex. `which`: the functions that gave them.
template <class Outstanding>
void wait_for_acknowledgements(pthread_mutex_t& mutex, pthread_cond_t& changed, const char* which,
                               Outstanding outstanding) {
    timespec worth_a_line;  // of the clock that the headers' condition variables use
    clock_gettime(CLOCK_REALTIME, &worth_a_line);
    worth_a_line.tv_sec++;
    bool told = false;
    pthread_mutex_lock(&mutex);
    while (auto missing = outstanding()) {
        if (told) {
            pthread_cond_wait(&changed, &mutex);
        } else if (pthread_cond_timedwait(&changed, &mutex, &worth_a_line) != 0 && outstanding() != 0) {
            told = true;
            log(LogLevel::warn, "waits for %llu event(s) that %s returned and nobody acknowledged",
                static_cast<unsigned long long>(missing), which);
        }
    }
    pthread_mutex_unlock(&mutex);
}

}  // namespace verbena::verbs
