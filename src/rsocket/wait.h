// How a call of a stream waits: a look, a short spin, then sleep.
#pragma once

#include <cerrno>
#include <mutex>

#include "rsocket/stream.h"

namespace verbena::rsocket {

// The lock of one direction. A call that must not block does not wait for another thread's: EAGAIN.
inline bool lock_direction(std::unique_lock<std::mutex>& direction, bool blocking) {
    if (blocking)
        direction.lock();
    else if (!direction.try_lock())
        errno = EAGAIN;
    return direction.owns_lock();
}

template <class Condition>
int Stream::wait(Lock& lock, Sleeper& sleeper, bool blocking, Time deadline, Condition holds) {
    if (holds()) return 0;
    progress();
    if (holds()) return 0;
    if (!blocking) return EAGAIN;
    if (phase_ == Phase::connected) {
        const Time until = now() + defaults().polling_time;
        do {
            lock.unlock();
            lock.lock();
            progress();
            if (holds()) return 0;
        } while (now() < until);
    }
    if (int error = sleeper.prepare()) return error;
    for (;;) {
        int error = 0;
        {
            const Registration registration(*this, sleeper);
            if (connection_.exists()) connection_.completions().arm();
            progress(&sleeper);
            if (!holds()) {
                ibv_context* context = connection_.exists() ? connection_.context() : nullptr;
                lock.unlock();
                error = sleeper.sleep(context, fd(), deadline);
                lock.lock();
            }
        }
        sleeper.drain();
        empty_descriptors(&sleeper);
        progress();
        if (holds()) return 0;
        if (error) return error == ETIMEDOUT ? EAGAIN : error;
    }
}

}  // namespace verbena::rsocket
