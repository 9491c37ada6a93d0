// What the kernel says of another thread of this process: whether it runs, or would if there were a
// processor.
#pragma once

#include <sys/types.h>

#include <vector>

#include "base/time.h"

namespace verbena {

struct ThreadState {
    bool wants_processor = false;  // runs, or waits for its turn; false if there is no such thread
    Duration used = 0;             // processor time so far, by the kernel's tick
};

// Costs some tens of microseconds.
ThreadState look_at_thread(pid_t thread);

// Those that there are at the moment.
std::vector<pid_t> threads_of_process();

}  // namespace verbena
