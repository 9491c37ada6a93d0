// The queue pair of an id: created with its completion queues, and moved through its states by the library.
// Thread safety: all functions; none holds id.mutex while it waits for the peer or for another thread.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "cm/types.h"

namespace verbena::rdmacm {

struct Id;

// The id's queue pair, kept from being destroyed for as long as this object lives; null if there is none.
class PinnedQp {
   public:
    explicit PinnedQp(Id& id);
    ~PinnedQp();
    PinnedQp(const PinnedQp&) = delete;
    PinnedQp& operator=(const PinnedQp&) = delete;
    explicit operator bool() const { return qp_ != nullptr; }
    ibv_qp* get() const { return qp_; }

   private:
    Id& id_;
    ibv_qp* qp_;
};

// The attributes for a transition to attributes.qp_state, from the daemon. 0, or -1 with errno and a reason.
int init_attributes(Id& id, ibv_qp_attr& attributes, int& mask);

// INIT -> RTR -> RTS with the limits of the id (responder_resources, initiator_depth). 0 for an id without a
// queue pair. 0, or -1 with errno and a reason.
int connect_qp(Id& id);

// What is owed to the peer leaves, then the queue pair flushes. 0, or -1 with errno and a reason.
int fail_qp(Id& id);

// Completion queues of the id, with channels; none where there are to be no entries. 0, or -1 with errno and
// a reason, and then it has made none.
int create_cqs(Id& id, std::uint32_t send_entries, std::uint32_t receive_entries);
struct WhichCqs {
    bool send = true, receive = true;
};
void destroy_cqs(Id& id, WhichCqs which = {});

}  // namespace verbena::rdmacm
