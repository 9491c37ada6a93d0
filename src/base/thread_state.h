// What the kernel says of other threads of this process: whether one runs, or would if there were a
// processor, and how many there are; and of another process.
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

struct ProcessThreads {
    long count = 0;               // the first one, too, where others outlive it; 0: nobody can tell
    bool first_has_left = false;  // by pthread_exit(3)
};

// Both of one moment.
ProcessThreads look_at_process();

// By a signal, or a debugger. False of a process that cannot be looked at.
bool is_stopped(pid_t process);

// Those that there are at the moment.
std::vector<pid_t> threads_of_process();

}  // namespace verbena
