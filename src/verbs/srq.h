// Shared receive queues as the calls share them.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace verbena::verbs {

struct Srq;

// Waits for the acknowledgement of its asynchronous events. No queue pair uses it any more.
void destroy_shared_queue(Srq& srq);

// Whether the event is about that queue.
bool is_event_of(const ibv_async_event& event, const ibv_srq* srq);

// Slots of the context.
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attr);
int get_srq_num(ibv_srq* srq, std::uint32_t* number);

}  // namespace verbena::verbs
