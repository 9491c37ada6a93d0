// How a call of a stream waits: a look, a short spin, then sleep.
#pragma once

#include <cerrno>
#include <mutex>

#include "rsocket/stream.h"

namespace verbena::rsocket {

// A call's turn in one direction. Falsy, with EAGAIN, if it would have to wait and must not.
class Stream::Turn {
   public:
    Turn(Stream& stream, Direction& direction, bool blocking)
        : stream_(stream), direction_(direction), lock_(direction, std::defer_lock) {
        if (blocking)
            lock_.lock();
        else if (!lock_.try_lock())
            errno = EAGAIN;
    }
    ~Turn() {
        if (!lock_) return;
        lock_.unlock();
        if (direction_.refused()) stream_.note_arrival(nullptr);
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    explicit operator bool() const { return lock_.owns_lock(); }

   private:
    Stream& stream_;
    Direction& direction_;
    std::unique_lock<Direction> lock_;
};

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
    if (int error = sleeper.prepare_or_nap()) return error;
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
