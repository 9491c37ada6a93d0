// While it lives the calling thread is not cancelled (pthread_cancel(3)): what it began it ends.
#pragma once

#include <pthread.h>

namespace verbena {

class NoCancellation {
   public:
    NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
    ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
    NoCancellation(const NoCancellation&) = delete;
    NoCancellation& operator=(const NoCancellation&) = delete;

   private:
    int before_ = 0;
};

}  // namespace verbena
