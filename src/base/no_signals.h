// No signal is handled by the calling thread while this lives, nor ever by threads that it starts meanwhile:
// the program's signals are for the program's threads.
#pragma once

#include <signal.h>

namespace verbena {

class NoSignals {
   public:
    NoSignals() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    NoSignals(const NoSignals&) = delete;
    NoSignals& operator=(const NoSignals&) = delete;

   private:
    sigset_t before_;
};

}  // namespace verbena
