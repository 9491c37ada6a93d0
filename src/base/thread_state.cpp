#include "base/thread_state.h"

#include <dirent.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace verbena {

namespace {

using StatText = char[512];

// "N (name) state ...", where the name may hold anything. What is behind the name; nullptr: nobody's.
const char* behind_name(StatText& text, std::size_t length) {
    text[length] = '\0';
    const char* name_end = std::strrchr(text, ')');
    return name_end ? name_end + 1 : nullptr;
}

const char* read_stat(const char* path, StatText& text) {
    std::FILE* file = std::fopen(path, "re");
    if (!file) return nullptr;
    const std::size_t length = std::fread(text, 1, sizeof text - 1, file);
    std::fclose(file);
    return behind_name(text, length);
}

bool is_in_state(const char* words, char letter) { return words && words[0] == ' ' && words[1] == letter; }

}  // namespace

bool wants_processor(pid_t thread) {
    char path[64];
    StatText text;
    std::snprintf(path, sizeof path, "/proc/self/task/%d/stat", static_cast<int>(thread));
    return thread > 0 && is_in_state(read_stat(path, text), 'R');
}

bool opener_wants_processor(int own_stat) {
    StatText text;
    const ssize_t length = pread(own_stat, text, sizeof text - 1, 0);
    return length > 0 && is_in_state(behind_name(text, static_cast<std::size_t>(length)), 'R');
}

// By its clock (CPUCLOCK_PERTHREAD, CPUCLOCK_SCHED): pthread_getcpuclockid(3) tells of it only by a
// pthread_t, which may be none any more.
Duration processor_time(pid_t thread) {
    constexpr unsigned kOfThread = 4, kOfScheduler = 2;
    const unsigned clock = ~static_cast<unsigned>(thread) << 3 | kOfThread | kOfScheduler;
    timespec time;
    if (thread <= 0 || clock_gettime(static_cast<clockid_t>(clock), &time) != 0) return -1;
    return time.tv_sec * kSecond + time.tv_nsec;
}

// The number of threads is the 20th word.
ProcessThreads look_at_process() {
    StatText text;
    char letter = 0;
    const char* words = read_stat("/proc/self/stat", text);
    long count = 0;
    if (!words ||
        std::sscanf(words, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %ld", &letter,
                    &count) != 2)
        return {};
    return {count, letter == 'Z'};
}

bool is_stopped(pid_t process) {
    char path[64];
    StatText text;
    std::snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(process));
    const char* words = read_stat(path, text);
    return is_in_state(words, 'T') || is_in_state(words, 't');
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
