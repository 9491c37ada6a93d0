// Events that are no calls: completions, queue pairs' states, what the connection manager and the device
// report.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "interpose/call.h"

namespace verbena::interpose {

// A call that reads this descriptor does not block when it is O_NONBLOCK.
void blocks_on(Call& call, int fd);

void completed(const ibv_cq* cq, const ibv_wc& completion);
// The one at which ibv_start_poll() or ibv_next_poll() has arrived; `functions` are the library's;
// `began` is strict mode's moment.
void completed(ibv_cq_ex* cq, const ibv_cq_ex& functions, std::uint64_t began);

void queue_pair_made(const ibv_qp& qp);
void queue_pair_modified(const ibv_qp& qp, int from, const ibv_qp_attr& attributes, int mask);
void queue_pair_gone(std::uint32_t number, int from);

// Fields of an object under construction.
void show_async_event(Line& line, const ibv_async_event& event);
// The queue pair, queue or the like that it is about; nullptr: a port or the device.
const void* object_of(const ibv_async_event& event);
void show_cm_event(Line& line, const rdma_cm_event& event);
void async_event_happened(const ibv_async_event& event);
void cm_event_happened(const rdma_cm_event& event);

}  // namespace verbena::interpose
