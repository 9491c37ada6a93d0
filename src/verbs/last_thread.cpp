#include "verbs/last_thread.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "base/time.h"

namespace verbena::verbs {
namespace {

constexpr long kLook = 100 * kMillisecond;
constexpr std::string_view kOwnNames[] = {"verbena\n", "rsockets\n"};  // the engine's, rsocket/service.h's

pthread_key_t first_thread;  // its value's destructor runs in pthread_exit(), not in exit()
std::atomic<bool> key_made{false}, first_left{false}, own_run{false}, watched{false};

// The beginning of a file of /proc/self/task; empty if that thread is gone.
std::string_view read_of(const char* thread, const char* file, std::array<char, 256>& room) {
    const std::string path = std::string("/proc/self/task/") + thread + "/" + file;
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return {};
    const ssize_t size = ::read(fd, room.data(), room.size());
    ::close(fd);
    return {room.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

// The first thread stays as a zombie for as long as there are others.
bool is_zombie(const char* thread) {
    std::array<char, 256> room;
    const std::string_view state = read_of(thread, "stat", room);  // "number (name) state ..."
    const std::size_t name_ends = state.rfind(')');
    return name_ends != state.npos && state.substr(name_ends).starts_with(") Z");
}

bool is_ours(const char* thread) {
    std::array<char, 256> room;
    const std::string_view name = read_of(thread, "comm", room);
    return name.empty() || std::ranges::find(kOwnNames, name) != std::end(kOwnNames);
}

bool only_ours_are_left() {
    const std::string first = std::to_string(getpid());
    const std::unique_ptr<DIR, int (*)(DIR*)> threads(opendir("/proc/self/task"), closedir);
    bool found = false;
    if (threads)
        while (const dirent* thread = readdir(threads.get())) {
            if (thread->d_name[0] == '.') continue;
            found |= first == thread->d_name;
            if (first == thread->d_name ? !is_zombie(thread->d_name) : !is_ours(thread->d_name)) return false;
        }
    return found;
}

void* watch(void*) {
    constexpr timespec kPause{0, kLook};
    while (!only_ours_are_left()) nanosleep(&kPause, nullptr);
    std::exit(0);
}

void watch_if_due() {
    if (!first_left.load() || !own_run.load() || watched.exchange(true)) return;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    if (pthread_create(&thread, nullptr, watch, nullptr) == 0) {
        pthread_setname_np(thread, "verbena");
        pthread_detach(thread);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void leaves(void*) {
    if (syscall(SYS_gettid) != getpid()) return;  // who forked was not the first one, but is so in the child
    first_left.store(true);
    watch_if_due();
}

// The key names code of the library.
[[gnu::destructor]] void forget_key() {
    if (key_made.exchange(false)) pthread_key_delete(first_thread);
}

}  // namespace

void notice_when_the_first_thread_leaves() {
    if (syscall(SYS_gettid) != getpid() || pthread_key_create(&first_thread, leaves) != 0) return;
    key_made.store(true);
    pthread_setspecific(first_thread, &first_thread);
}

void own_thread_runs() {
    own_run.store(true);
    watch_if_due();
}

}  // namespace verbena::verbs
