// What the kernel says of other threads of this process: whether one runs, or would if there were a
// processor, for how long it has, and how many there are; and of another process.
#pragma once

#include <sys/types.h>

#include <vector>

#include "base/time.h"

namespace verbena {

// It runs, or waits for its turn; false if there is no such thread. Costs some tens of microseconds.
bool wants_processor(pid_t thread);
// The same of the thread that has opened this file: one system call.
inline constexpr char kOwnStat[] = "/proc/thread-self/stat";
bool opener_wants_processor(int own_stat);

// For how long it has had one. Negative if there is no such thread.
Duration processor_time(pid_t thread);

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
