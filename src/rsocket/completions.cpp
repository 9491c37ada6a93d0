#include "rsocket/completions.h"

#include <fcntl.h>

#include <cerrno>

namespace verbena::rsocket {

int Completions::create(ibv_context* context, unsigned entries) {
    channel_ = ibv_create_comp_channel(context);
    if (!channel_) return errno;
    fcntl(channel_->fd, F_SETFL, O_NONBLOCK);
    cq_ = ibv_create_cq(context, static_cast<int>(entries), nullptr, channel_, 0);
    return cq_ ? 0 : errno;
}

void Completions::destroy() {
    if (cq_) {
        if (events_) ibv_ack_cq_events(cq_, events_);
        ibv_destroy_cq(cq_);
    }
    if (channel_) ibv_destroy_comp_channel(channel_);
    cq_ = nullptr;
    channel_ = nullptr;
    events_ = 0;
    armed_ = false;
}

void Completions::arm() {
    if (!armed_) ibv_req_notify_cq(cq_, 0);
    armed_ = true;
}

bool Completions::drain() {
    bool found = false;
    ibv_cq* cq;
    void* context;
    while (ibv_get_cq_event(channel_, &cq, &context) == 0) {
        events_++;
        armed_ = false;
        found = true;
    }
    return found;
}

}  // namespace verbena::rsocket
