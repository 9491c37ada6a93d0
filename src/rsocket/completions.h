// A completion queue whose descriptor a socket sleeps on: non-blocking, armed when somebody is about to
// sleep.
//
// Thread safety: none; the socket locks.
#pragma once

#include <infiniband/verbs.h>

#include <span>

namespace verbena::rsocket {

class Completions {
   public:
    Completions() = default;
    ~Completions() { destroy(); }
    Completions(const Completions&) = delete;
    Completions& operator=(const Completions&) = delete;

    [[nodiscard]] int create(ibv_context* context, unsigned entries);  // an errno
    void destroy();                                                    // the queue pairs that use it are gone

    bool exists() const { return cq_ != nullptr; }
    ibv_cq* queue() const { return cq_; }
    int fd() const { return channel_->fd; }

    int poll(std::span<ibv_wc> completions) {
        return ibv_poll_cq(cq_, static_cast<int>(completions.size()), completions.data());
    }
    void arm();
    // Takes the events that made the descriptor readable. True if one was there.
    bool drain();

   private:
    ibv_comp_channel* channel_ = nullptr;
    ibv_cq* cq_ = nullptr;
    unsigned events_ = 0;  // not acknowledged
    bool armed_ = false;
};

}  // namespace verbena::rsocket
