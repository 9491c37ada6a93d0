// ibv_start_poll() and ibv_next_poll(), which are called through the completion queue's own pointers.

#include <memory>
#include <utility>

#include "interpose/hooks.h"

namespace verbena::interpose {
namespace {

int start_poll(ibv_cq_ex* cq, ibv_poll_cq_attr* attributes) {
    return forward<calls::ibv_start_poll>(pointers_of(cq).functions.start_poll, cq, attributes);
}

int next_poll(ibv_cq_ex* cq) {
    return forward<calls::ibv_next_poll>(pointers_of(cq).functions.next_poll, cq);
}

}  // namespace

void watch_completion_queue(ibv_cq_ex* cq) {
    if (!cq || cq->start_poll == start_poll) return;
    auto pointers = std::make_unique<CompletionQueuePointers>();
    pointers->functions = *cq;
    keep(cq, std::move(pointers));
    cq->start_poll = start_poll;
    cq->next_poll = next_poll;
}

}  // namespace verbena::interpose
