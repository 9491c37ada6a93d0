#include "base/thread_state.h"

#include <dirent.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace verbena {

namespace {

// "N (name) state ...", where the name may hold anything. What is behind the name; nullptr: nobody's.
const char* read_stat(const char* path, char (&text)[512]) {
    std::FILE* file = std::fopen(path, "re");
    if (!file) return nullptr;
    const std::size_t length = std::fread(text, 1, sizeof text - 1, file);
    std::fclose(file);
    text[length] = '\0';
    const char* name_end = std::strrchr(text, ')');
    return name_end ? name_end + 1 : nullptr;
}

}  // namespace

// User and system time are the 14th and 15th word, in ticks.
ThreadState look_at_thread(pid_t thread) {
    ThreadState state;
    char path[64], text[512];
    std::snprintf(path, sizeof path, "/proc/self/task/%d/stat", static_cast<int>(thread));
    const char* words = thread > 0 ? read_stat(path, text) : nullptr;
    char letter = 0;
    unsigned long user = 0, system = 0;
    if (!words || std::sscanf(words, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu %lu", &letter, &user,
                              &system) != 3)
        return state;
    state.wants_processor = letter == 'R';
    const long ticks = sysconf(_SC_CLK_TCK);
    if (ticks > 0) state.used = static_cast<Duration>(user + system) * kSecond / ticks;
    return state;
}

// The number of threads is the 20th word.
ProcessThreads look_at_process() {
    char text[512], letter = 0;
    const char* words = read_stat("/proc/self/stat", text);
    long count = 0;
    if (!words ||
        std::sscanf(words, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %ld", &letter,
                    &count) != 2)
        return {};
    return {count, letter == 'Z'};
}

bool is_stopped(pid_t process) {
    char path[64], text[512];
    std::snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(process));
    const char* words = read_stat(path, text);
    return words && words[0] == ' ' && (words[1] == 'T' || words[1] == 't');
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
