// What librdmacm asks of libibverbs beyond the public calls.

#include "verbs/private.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "adapter/clock.h"
#include "adapter/engine.h"
#include "base/thread_state.h"
#include "verbs/last_thread.h"
#include "verbs/objects.h"
#include "verbs/posting.h"
#include "verbs/process.h"

namespace verbena::verbs {
namespace {

constexpr Duration kAcknowledgementWait = 100 * kMillisecond;
// For another thread that works on a completion; and for one that cannot, because it gets no processor: that
// has used less than so much of one, and wants more.
constexpr Duration kPollerWait = 500 * kMillisecond;
constexpr Duration kStarvedPollerWait = 10 * kSecond;
constexpr Duration kOwnTime = 100 * kMillisecond;

// The calling thread is the program's only one: nobody else can be at work, or come. Ours are the helpers,
// and the thread of rsockets, which makes this false.
bool alone() {
    const long threads = look_at_process().count;
    return threads > 0 && threads <= 1 + static_cast<long>(adapter::Engine::helpers());
}

// Drives the adapter until `done()` or the time is up; sleeps a little when nothing moves, so that whoever is
// waited for gets the processor. False if the time was up first.
template <class Done>
bool progress_until(Process& process, Duration limit, Done done) {
    const Time deadline = adapter::now() + limit;
    for (unsigned rounds = 0; !done(); rounds++) {
        Time now = adapter::now();
        if (now >= deadline) return false;
        if (process.engine().progress(now)) continue;
        if (rounds < 100)
            sched_yield();
        else
            usleep(50);
    }
    return true;
}

// The thread that polls this queue, or waits for its events; 0: not known.
pid_t poller_of(ibv_cq* handle) {
    if (!handle) return 0;  // XRC queue pairs lack one or both
    Cq* cq = Cq::of(handle);
    const pid_t poller = cq->poller.load(std::memory_order_relaxed);
    return poller || !cq->channel ? poller : cq->channel->reader.load(std::memory_order_relaxed);
}

// Another thread polls this queue, or waits for its events, and has not found it empty since something was
// there. If nobody has done either with a queue that has a channel, the thread that will may have been
// started a moment ago.
bool poller_is_behind(ibv_cq* handle) {
    if (!handle) return false;
    Cq* cq = Cq::of(handle);
    const pid_t self = this_thread();
    const pid_t poller = cq->poller.load(std::memory_order_relaxed);
    const pid_t reader = cq->channel ? cq->channel->reader.load(std::memory_order_relaxed) : 0;
    if (poller == self || (!poller && (reader == self || !cq->channel))) return false;
    return cq->queue->waiting() || (poller && cq->poller_at_work.load(std::memory_order_acquire));
}

// Who was waited for in vain has ended, or leaves the queue alone: that is not waited for again.
void give_up_on_poller(ibv_cq* handle) {
    if (!handle) return;
    Cq* cq = Cq::of(handle);
    cq->poller_at_work.store(false, std::memory_order_relaxed);
    pid_t nobody = 0;
    cq->poller.compare_exchange_strong(nobody, this_thread());
}

// Calls `look(queue pair)` unless the program has destroyed the queue pair (with ibv_destroy_qp, of which
// librdmacm hears nothing); it and its completion queues live until the return. False if it is gone.
template <class Look>
bool with_live(ibv_context* base, ibv_qp* qp, Look look) {
    Context* context = Context::of(base);
    std::lock_guard lock(context->objects_lock);
    if (context->queue_pairs.empty()) return false;
    // The object around the public structure, without reading memory that may be freed: it begins as far
    // before it as in any other.
    QueuePair* other = *context->queue_pairs.begin();
    const auto distance =
        reinterpret_cast<std::uintptr_t>(other->base()) - reinterpret_cast<std::uintptr_t>(other);
    auto found = context->queue_pairs.find(
        reinterpret_cast<QueuePair*>(reinterpret_cast<std::uintptr_t>(qp) - distance));
    if (found == context->queue_pairs.end()) return false;
    look(**found);
    return true;
}

// The threads that may be behind: those that are known to poll; all but the caller where one is not known,
// since it may have been started and not have run yet.
std::vector<pid_t> candidates(ibv_context* base, ibv_qp* qp) {
    std::vector<pid_t> threads;
    bool all = false;
    with_live(base, qp, [&](QueuePair& live) {
        for (ibv_cq* cq : {live.base()->send_cq, live.base()->recv_cq}) {
            if (!poller_is_behind(cq)) continue;
            threads.push_back(poller_of(cq));
            all = all || threads.back() == 0;
        }
    });
    if (all) threads = threads_of_process();
    std::erase(threads, this_thread());
    return threads;
}

// False if they do something else.
template <class Done>
bool wait_for_pollers(Process& process, ibv_context* base, ibv_qp* qp, Done done) {
    std::vector<std::pair<pid_t, Duration>> threads;  // and what they had used before
    for (pid_t thread : candidates(base, qp)) threads.emplace_back(thread, processor_time(thread));
    const auto starved = [&] {
        return std::any_of(threads.begin(), threads.end(), [](const auto& entry) {
            const auto [thread, before] = entry;
            return wants_processor(thread) && processor_time(thread) - before < kOwnTime;
        });
    };
    const Time end = adapter::now() + kStarvedPollerWait;
    for (;;) {
        if (progress_until(process, kPollerWait, done)) return true;
        if (adapter::now() >= end || !starved()) return false;
    }
}

}  // namespace
}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

extern "C" {

void verbena_is_librarys(struct ibv_context* context) { Context::of(context)->of_library = true; }

int verbena_has_qp(struct ibv_context* base, struct ibv_qp* qp) {
    return with_live(base, qp, [](QueuePair&) {});
}

void verbena_owe_nothing(struct ibv_context* base, struct ibv_qp* qp) {
    Process* process = Context::of(base)->process;
    if (!process->usable()) return;
    adapter::Adapter& adapter = process->adapter();
    progress_until(*process, kAcknowledgementWait, [&] {
        bool awaits = false;
        with_live(base, qp, [&](QueuePair& live) { awaits = adapter.awaits_acknowledgement(*live.qp); });
        return !awaits;
    });
    with_live(base, qp, [&](QueuePair& live) { adapter.push_acknowledgements(*live.qp, adapter::now()); });
}

void verbena_settle(struct ibv_context* base) {
    Process* process = Context::of(base)->process;
    if (!process->usable()) return;
    process->adapter().settle(adapter::now());
    process->engine().posted();
}

void verbena_own_thread(void) { own_thread_begins(); }

void verbena_step_aside(void) {
    Process* process = Process::current_one();
    if (!process || !process->usable()) return;
    // What is received now may owe an acknowledgement too: it leaves with the round that finds nothing more.
    while (process->adapter().owes() && process->engine().progress(adapter::now())) {
    }
    process->engine().arm();
}

void verbena_when_daemon_ends(void (*ended)(uint32_t generation)) { Process::when_daemon_ends(ended); }

int verbena_wait_readable(struct ibv_context* base, int fd, int64_t deadline) {
    using adapter::Engine;
    Process* process = base ? Context::of(base)->process : nullptr;
    adapter::Awaited awaited(fd);
    const Engine::Wait end = process && process->usable() ? process->engine().wait_readable(awaited, deadline)
                                                          : Engine::wait_alone(fd, deadline);
    return end == Engine::Wait::readable ? 0 : end == Engine::Wait::timed_out ? ETIMEDOUT : EINTR;
}

void verbena_quiesce(struct ibv_context* base, struct ibv_qp* qp) {
    Process* process = Context::of(base)->process;
    if (!process->usable()) return;
    process->adapter().settle(adapter::now());
    process->engine().posted();
    const auto settled = [&] {
        bool behind = false;
        with_live(base, qp, [&](QueuePair& live) {
            behind = poller_is_behind(live.base()->send_cq) || poller_is_behind(live.base()->recv_cq);
        });
        return !behind;
    };
    if (settled()) return;
    if (!alone() && wait_for_pollers(*process, base, qp, settled)) return;
    with_live(base, qp, [](QueuePair& live) {
        give_up_on_poller(live.base()->send_cq);
        give_up_on_poller(live.base()->recv_cq);
    });
}

}  // extern "C"
