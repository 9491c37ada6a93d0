// The way of short messages through the adapter (transport/rc_short.h), and of receives that are posted one
// by one: in one function from the public call on.
#pragma once

#include "adapter/state.h"
#include "link/local_link.h"
#include "transport/rc_short.h"

namespace verbena::adapter {

[[gnu::always_inline]] inline bool Adapter::post_short(std::uint32_t number,
                                                       const transport::SendRequest& request,
                                                       const LazyTime& now) {
    State& state = *state_;
    if (!state.local || (!request.sges.empty() && request.sges[0].length > wire::kMostShort)) return false;
    if (state.many()) state.comes_to(number);
    LockedQp locked = state.lock(number);
    if (!locked || !locked.qp().is_rc() || state.is_aboard(locked.slot()) || state.gathers_here())
        [[unlikely]]
        return false;
    auto& qp = static_cast<transport::RcQueuePair&>(locked.qp());
    const auto follows = qp.post_short(request, *state.local, now);
    if (follows & transport::QueuePair::kWaits) [[unlikely]]
        state.look_by(locked.slot(), qp.other_deadline());
    return follows != transport::QueuePair::kDeclined;
}

[[gnu::always_inline]] inline bool Adapter::post_short(transport::ReceiveQueue& queue,
                                                       std::uint32_t qp_number,
                                                       const transport::ReceiveRequest& request,
                                                       const LazyTime& now) {
    if (queue.takes() != transport::ReceiveQueue::Takes::requests || !queue.try_post(request)) [[unlikely]]
        return false;
    state_->receives_posted(qp_number, queue, now);
    return true;
}

}  // namespace verbena::adapter
