// The function pointers of contexts, queue pairs and completion queues that headers call through: replaced by
// ours when the object is made; the library's own are kept here.
//
// What is kept of an object stays when it goes: its address may be another object's before the call that
// destroyed it has returned. A new object at the address takes its place.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <vector>

#include "interpose/show.h"

namespace verbena::interpose {

struct ContextPointers {
    ibv_context_ops ops;
    verbs_context table;  // as far as the library's reaches
};

struct QueuePairPointers {
    ibv_qp_ex functions;
    std::vector<SendRequest> requests;  // since ibv_wr_start(), by the thread that called it
};

struct CompletionQueuePointers {
    ibv_cq_ex functions;
};

// Replace the pointers, unless they are ours already. NULL is ignored.
void watch_context(ibv_context* context);
void watch_queue_pair(ibv_qp_ex* qp);
void watch_completion_queue(ibv_cq_ex* cq);

// Of an object whose pointers were replaced; valid while it lives.
ContextPointers& pointers_of(const ibv_context* context);
QueuePairPointers& pointers_of(const ibv_qp_ex* qp);
CompletionQueuePointers& pointers_of(const ibv_cq_ex* cq);

// For the above.
void keep(const ibv_context* context, std::unique_ptr<ContextPointers> pointers);
void keep(const ibv_qp_ex* qp, std::unique_ptr<QueuePairPointers> pointers);
void keep(const ibv_cq_ex* cq, std::unique_ptr<CompletionQueuePointers> pointers);

}  // namespace verbena::interpose
