// What librdmacm asks of libibverbs beyond the public calls.

#include "verbs/private.h"

#include <sched.h>
#include <unistd.h>

#include "adapter/clock.h"
#include "verbs/objects.h"
#include "verbs/posting.h"
#include "verbs/process.h"

namespace verbena::verbs {
namespace {

constexpr Duration kAcknowledgementWait = 100 * kMillisecond;
constexpr Duration kPollerWait = 200 * kMillisecond;

// Drives the adapter until `done()` or the time is up; sleeps a little when nothing moves, so that whoever is
// waited for gets the processor.
template <class Done>
void progress_until(Process& process, Duration limit, Done done) {
    const Time deadline = adapter::now() + limit;
    for (unsigned rounds = 0; !done(); rounds++) {
        Time now = adapter::now();
        if (now >= deadline) return;
        if (process.adapter().progress(now, true)) continue;
        if (rounds < 100)
            sched_yield();
        else
            usleep(50);
    }
}

// Another thread polls this queue and has not found it empty since something was there.
bool poller_is_behind(ibv_cq* handle) {
    Cq* cq = Cq::of(handle);
    const void* poller = cq->poller.load(std::memory_order_relaxed);
    if (!poller || poller == this_thread()) return false;
    return cq->queue->waiting() || cq->poller_at_work.load(std::memory_order_relaxed);
}

}  // namespace
}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

extern "C" {

void verbena_owe_nothing(struct ibv_qp* base) {
    QueuePair* qp = QueuePair::of(base);
    Process* process = qp->context->process;
    if (!process->usable()) return;
    adapter::Adapter& adapter = process->adapter();
    progress_until(*process, kAcknowledgementWait, [&] { return !adapter.awaits_acknowledgement(*qp->qp); });
    adapter.push_acknowledgements(*qp->qp, adapter::now());
}

void verbena_settle(struct ibv_context* base) {
    Process* process = Context::of(base)->process;
    if (process->usable()) process->adapter().settle(adapter::now());
}

void verbena_quiesce(struct ibv_qp* base) {
    Process* process = Context::of(base->context)->process;
    if (!process->usable()) return;
    process->adapter().settle(adapter::now());
    progress_until(*process, kPollerWait,
                   [&] { return !poller_is_behind(base->send_cq) && !poller_is_behind(base->recv_cq); });
}

}  // extern "C"
