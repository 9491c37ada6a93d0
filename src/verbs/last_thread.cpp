#include "verbs/last_thread.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "adapter/engine.h"
#include "base/no_signals.h"
#include "base/own_pid.h"
#include "base/thread_state.h"
#include "base/time.h"

namespace verbena::verbs {
namespace {

constexpr long kLook = 100 * kMillisecond;

pthread_key_t first_thread;  // its value's destructor runs in pthread_exit(), not in exit()
std::atomic<bool> key_made{false};
// In which process: a forked child has none of its parent's threads.
std::atomic<pid_t> first_left{0}, own_run{0}, watched{0};
// Those beside the engine's, in that process.
struct alignas(8) Counted {
    pid_t process = 0;
    std::int32_t threads = 0;
};
static_assert(std::atomic<Counted>::is_always_lock_free);
std::atomic<Counted> others{Counted{}};

std::int32_t others_here(const Counted& counted) {
    return counted.process == own_pid() ? counted.threads : 0;
}

void count_others(std::int32_t change) {
    Counted before = others.load();
    while (!others.compare_exchange_weak(before, {own_pid(), others_here(before) + change})) {
    }
}

long own_threads() { return static_cast<long>(adapter::Engine::helpers()) + others_here(others.load()); }

bool only_ours_are_left() {
    const ProcessThreads threads = look_at_process();
    return threads.first_has_left && threads.count <= own_threads() + 2;  // the first, and we
}

void* watch(void*) {
    constexpr timespec kPause{0, kLook};
    while (!only_ours_are_left()) nanosleep(&kPause, nullptr);
    std::exit(0);
}

void watch_if_due() {
    const pid_t here = own_pid();
    if (first_left.load() != here || own_run.load() != here || watched.exchange(here) == here) return;
    const NoSignals none;
    pthread_t thread;
    if (pthread_create(&thread, nullptr, watch, nullptr) != 0) return;
    pthread_setname_np(thread, "verbena");
    pthread_detach(thread);
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
