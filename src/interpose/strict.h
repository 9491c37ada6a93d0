// Strict mode (VERBENA_STRICT=1): mistakes that no library has to notice are told on stderr when they happen,
// and what is left at the end (docs/strict.md). The checkers are strict_requests.h and strict_ledger.h; this
// is what hooks call. Nothing happens when strict mode is off.
//
// Thread safety: all calls.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <vector>

#include "interpose/objects.h"
#include "interpose/show.h"

namespace verbena::interpose {

bool strict();

namespace strict_mode {

// --- what objects there are
void made(Kind kind, const void* object, int depth);  // of any kind; above depth 0 librdmacm made it
void gone(Kind kind, const void* object);
void region_made(const ibv_mr* region, std::uint64_t iova, int access);
void region_gone(const ibv_mr* region, const char* how);
void completion_queue_made(const ibv_cq* cq);
void queue_pair_made(const ibv_qp* qp, std::uint32_t max_send, bool all_signaled);
void queue_pair_modified(const ibv_qp* qp, int state);

// --- requests
void post_send(const ibv_qp* qp, const ibv_send_wr* list);
void post_send(const ibv_qp* qp, const std::vector<SendRequest>& requests);
void refused_send(const ibv_qp* qp, const ibv_send_wr* from);  // this one and those behind it
void refused_send(const ibv_qp* qp, std::size_t count);
void post_receive(const void* queue, const ibv_recv_wr* list);
void refused_receive(const void* queue, const ibv_recv_wr* from);
// Looks at a completion; poison() then takes away what the program must not look at.
void completed(const ibv_cq* cq, const ibv_wc& completion);
void poison(ibv_wc& completion);
void completed(const ibv_cq* cq, std::uint32_t qp_number, std::uint64_t wr_id, bool success, bool receive);

// --- events
void completion_event_fetched(const ibv_cq* cq);
void completion_events_acknowledged(const ibv_cq* cq, unsigned count);
void cm_event_fetched(const rdma_cm_event* event);
bool cm_event_acknowledged(const rdma_cm_event* event);  // false: the program must not do that any more
void async_event_fetched(const ibv_async_event& event);
void async_event_acknowledged(const ibv_async_event& event);
// Before such an object is destroyed, which would wait for ever: for completion and CM events, and for
// asynchronous ones.
void destroys(ibv_cq* cq);
void destroys(rdma_cm_id* id);
void destroys(Kind kind, const void* object);

}  // namespace strict_mode
}  // namespace verbena::interpose
