// What librdmacm asks of libibverbs beyond the public calls.

#include "verbs/private.h"

#include "adapter/clock.h"
#include "verbs/objects.h"
#include "verbs/process.h"

using namespace verbena;
using namespace verbena::verbs;

extern "C" {

void verbena_owe_nothing(struct ibv_qp* base) {
    QueuePair* qp = QueuePair::of(base);
    Process* process = qp->context->process;
    if (!process->usable()) return;
    process->adapter().progress(adapter::now(), true);
    process->adapter().push_acknowledgements(*qp->qp, adapter::now());
}

void verbena_settle(struct ibv_context* base) {
    Process* process = Context::of(base)->process;
    if (process->usable()) process->adapter().progress(adapter::now(), true);
}

}  // extern "C"
