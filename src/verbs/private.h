// What librdmacm needs of libibverbs beyond the public calls; exported under the private version node
// VERBENA_1.
#pragma once

#include <infiniband/verbs.h>

extern "C" {

// Every acknowledgement that this queue pair owes its peer leaves now, and those that the peer owes are
// waited for (100 ms at most), so that what has been delivered does not complete as flushed. Call it before a
// disconnect request, which travels on another socket and would overtake them.
[[gnu::visibility("default")]] void verbena_owe_nothing(struct ibv_qp* qp);

// Processes every packet that has arrived so far.
[[gnu::visibility("default")]] void verbena_settle(struct ibv_context* context);

// The same, and waits (200 ms at most) until another thread that polls the queue pair's completion queues has
// taken what is there and come back to find them empty. Call it before a DISCONNECTED event is handed to the
// program: the data that the peer sent before it disconnected comes first, and programs destroy everything on
// that event, under the feet of a thread that still works on the last completion. A single-threaded program
// is not held up.
[[gnu::visibility("default")]] void verbena_quiesce(struct ibv_qp* qp);

// "0.1.0 (protocol 1)": what a mixed installation is recognised by.
[[gnu::visibility("default")]] const char* verbena_build_id(void);
}
