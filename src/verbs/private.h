// What librdmacm needs of libibverbs beyond the public calls; exported under the private version node
// VERBENA_1.
#pragma once

#include <infiniband/verbs.h>

extern "C" {

// Every acknowledgement that this queue pair owes its peer leaves now. Call it before a disconnect request,
// which travels on another socket and would overtake them.
[[gnu::visibility("default")]] void verbena_owe_nothing(struct ibv_qp* qp);

// Processes every packet that has arrived so far. Call it before a DISCONNECTED event is handed to the
// program: the data that the peer sent before it disconnected comes first.
[[gnu::visibility("default")]] void verbena_settle(struct ibv_context* context);

// "0.1.0 (protocol 1)": what a mixed installation is recognised by.
[[gnu::visibility("default")]] const char* verbena_build_id(void);
}
