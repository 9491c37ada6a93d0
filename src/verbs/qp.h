// Queue pairs as the calls share them.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace verbena::verbs {

struct QueuePair;

// nullptr with errno and a reason. `xrcd`: of an XRC_RECV queue pair, which has no protection domain.
// `flags`: IBV_QP_CREATE_BLOCK_SELF_MCAST_LB or 0. What it really got is QueuePair::created.
ibv_qp* create_queue_pair(ibv_context* context, ibv_pd* pd, ibv_xrcd* xrcd, const ibv_qp_init_attr& wanted,
                          std::uint32_t flags = 0);

// Gives a queue pair, whose `created`, `qp` and `context` are set, its public half and its place in the
// context's set. Throws std::bad_alloc, and it is destroyed then.
void show_or_destroy(QueuePair& qp, ibv_pd* pd);

// Waits for the acknowledgement of its asynchronous events.
void destroy_queue_pair(QueuePair& qp);

// Whether the event is about that queue pair.
bool is_event_of(const ibv_async_event& event, const ibv_qp* qp);

// Slots of the context: ibv_create_qp_ex(3), ibv_modify_qp_rate_limit(3).
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr);
int modify_qp_rate_limit(ibv_qp* qp, ibv_qp_rate_limit_attr* attr);

}  // namespace verbena::verbs
