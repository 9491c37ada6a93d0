#include "base/thread_state.h"

#include <dirent.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace verbena {

// /proc/self/task/N/stat: "N (name) state ...", where the name may hold anything; user and system time are
// the 14th and 15th word, in ticks.
ThreadState look_at_thread(pid_t thread) {
    ThreadState state;
    char path[64];
    std::snprintf(path, sizeof path, "/proc/self/task/%d/stat", static_cast<int>(thread));
    std::FILE* file = thread > 0 ? std::fopen(path, "re") : nullptr;
    if (!file) return state;
    char text[512];
    const std::size_t length = std::fread(text, 1, sizeof text - 1, file);
    std::fclose(file);
    text[length] = '\0';
    const char* name_end = std::strrchr(text, ')');
    char letter = 0;
    unsigned long user = 0, system = 0;
    if (!name_end || std::sscanf(name_end + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu %lu", &letter,
                                 &user, &system) != 3)
        return state;
    state.wants_processor = letter == 'R';
    const long ticks = sysconf(_SC_CLK_TCK);
    if (ticks > 0) state.used = static_cast<Duration>(user + system) * kSecond / ticks;
    return state;
}

std::vector<pid_t> threads_of_process() {
    std::vector<pid_t> threads;
    DIR* folder = opendir("/proc/self/task");
    if (!folder) return threads;
    while (const dirent* entry = readdir(folder))
        if (const auto number = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10)); number > 0)
            threads.push_back(number);
    closedir(folder);
    return threads;
}

}  // namespace verbena
