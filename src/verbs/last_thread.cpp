#include "verbs/last_thread.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "adapter/engine.h"
#include "base/own_pid.h"
#include "base/time.h"

namespace verbena::verbs {
namespace {

constexpr long kLook = 100 * kMillisecond;

pthread_key_t first_thread;  // its value's destructor runs in pthread_exit(), not in exit()
std::atomic<bool> key_made{false};
// In which process: a forked child has none of its parent's threads.
std::atomic<pid_t> first_left{0}, own_run{0}, watched{0};
std::atomic<std::uint64_t> others{0};  // process, and how many beside the engine's

constexpr std::uint64_t process_part(pid_t pid) { return static_cast<std::uint64_t>(pid) << 32; }

void count_others(int change) {
    const std::uint64_t here = process_part(own_pid());
    std::uint64_t before = others.load(), after;
    do {
        const std::uint64_t count = before >> 32 == here >> 32 ? before & UINT32_MAX : 0;
        after = here | (count + static_cast<std::uint64_t>(change));
    } while (!others.compare_exchange_weak(before, after));
}

std::uint64_t own_threads() {
    const std::uint64_t counted = others.load();
    const bool ours = counted >> 32 == process_part(own_pid()) >> 32;
    return adapter::Engine::helpers() + (ours ? counted & UINT32_MAX : 0);
}

// "pid (name) state ...", all of it at one moment: the state is the first thread's, a zombie's as long as
// there are others, and the number of threads counts it, too.
bool only_ours_are_left() {
    const int fd = ::open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    std::array<char, 1024> text{};
    const ssize_t size = ::read(fd, text.data(), text.size() - 1);
    ::close(fd);
    const std::size_t name_ends = std::string_view(text.data(), size > 0 ? size : 0).rfind(") Z ");
    long threads = 0;
    constexpr int kBetween = 16;  // fields
    if (name_ends == std::string_view::npos) return false;
    const char* field = text.data() + name_ends + 4;
    for (int i = 0; i < kBetween && field; i++) {
        field = std::strchr(field, ' ');
        if (field) field++;
    }
    if (field) threads = std::strtol(field, nullptr, 10);
    return threads > 0 && static_cast<std::uint64_t>(threads) <= own_threads() + 2;  // the first, and we
}

void* watch(void*) {
    constexpr timespec kPause{0, kLook};
    while (!only_ours_are_left()) nanosleep(&kPause, nullptr);
    std::exit(0);
}

void watch_if_due() {
    const pid_t here = own_pid();
    if (first_left.load() != here || own_run.load() != here || watched.exchange(here) == here) return;
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

bool is_first() { return syscall(SYS_gettid) == getpid(); }

void leaves(void*) {
    if (!is_first()) return;
    first_left.store(own_pid());
    watch_if_due();
}

// The key names code of the library.
[[gnu::destructor]] void forget_key() {
    if (key_made.exchange(false)) pthread_key_delete(first_thread);
}

}  // namespace

void notice_when_the_first_thread_leaves() {
    if (!is_first() || (!key_made.load() && pthread_key_create(&first_thread, leaves) != 0)) return;
    key_made.store(true);
    pthread_setspecific(first_thread, &first_thread);
}

// Who forked is the first thread of the child, whatever it was before.
void own_thread_runs() {
    if (key_made.load() && is_first()) pthread_setspecific(first_thread, &first_thread);
    own_run.store(own_pid());
    watch_if_due();
}

void own_thread_begins() {
    count_others(1);
    own_thread_runs();
}

void own_thread_ends() { count_others(-1); }

}  // namespace verbena::verbs
