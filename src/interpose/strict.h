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
#include "interpose/strict_requests.h"

namespace verbena::interpose {

bool strict();

namespace strict_mode {

// --- what objects there are
void made(Kind kind, const void* object, int depth);  // of any kind; above depth 0 librdmacm made it
// Before a call that destroys an object, and after it: another's new object may have its address by then.
std::uint64_t leaves(const void* object);
void left(const void* object, std::uint64_t ticket, bool success);
void region_made(const ibv_mr* region, std::uint64_t iova, int access);
void region_made_elsewhere(const ibv_mr* region);  // of no memory of the program
void region_imported(const ibv_mr* region);
// Before a call that deregisters a region (`how`), or registers it anew, and after it.
std::uint64_t region_leaves(const ibv_mr* region, const char* how);
void region_left(std::uint64_t ticket, bool success);
void region_changed(std::uint64_t ticket, bool success, const ibv_mr* region, int flags, int access);
void completion_queue_made(const ibv_cq* cq);
void queue_pair_made(const ibv_qp* qp, std::uint32_t max_send, bool all_signaled);
void queue_pair_modified(const ibv_qp* qp, int state);

// --- requests
// Before the call, which returns a ticket, and after it; `bad` is the first that was refused.
std::uint64_t post_send(const ibv_qp* qp, const ibv_send_wr* list);
std::uint64_t post_send(const ibv_qp* qp, const std::vector<SendRequest>& requests);
void posted_send(const ibv_qp* qp, std::uint64_t ticket, bool success);
void posted_send(const ibv_qp* qp, std::uint64_t ticket, const ibv_send_wr* list, const ibv_send_wr* bad);
std::uint64_t post_receive(const void* queue, const ibv_context* context, const ibv_recv_wr* list);
void posted_receive(const void* queue, std::uint64_t ticket, const ibv_recv_wr* list, const ibv_recv_wr* bad);
// Around a poll of so many completions; what it took is told between, with the moment when it began.
std::uint64_t poll_begins(const ibv_cq* cq, int most);
void poll_ends(const ibv_cq* cq, int most);
// Looks at a completion; poison() then takes away what the program must not look at.
void completed(const ibv_cq* cq, const ibv_wc& completion, std::uint64_t began);
void poison(ibv_wc& completion);
void completed(const ibv_cq* cq, const Requests::Completion& completion, std::uint64_t began);

// --- events
// Acknowledged: false if the library has been told in the program's place, or is now, and must not be again.
void completion_event_fetched(const ibv_cq* cq);
bool completion_events_acknowledged(ibv_cq* cq, unsigned count);
void cm_event_fetched(const rdma_cm_event* event);
bool cm_event_acknowledged(const rdma_cm_event* event);
void async_event_fetched(const ibv_async_event& event);
bool async_event_acknowledged(const ibv_async_event& event);
// Before such an object is destroyed, which would wait for ever: for completion and CM events, and for
// asynchronous ones.
void destroys(ibv_cq* cq);
void destroys(rdma_cm_id* id);
void destroys(Kind kind, const void* object);

}  // namespace strict_mode
}  // namespace verbena::interpose
