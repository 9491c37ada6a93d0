// The data path's entries: the slots of ibv_context_ops.
#pragma once

#include <infiniband/verbs.h>

#include "completion/completion.h"

namespace verbena::verbs {

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
int post_receive(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
int post_shared_receive(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
int poll_cq(ibv_cq* cq, int count, ibv_wc* wc);
int request_notification(ibv_cq* cq, int solicited_only);

struct Cq;
// The next completion of a queue; if there is none, and with `may_progress`, the caller's time moves packets
// once. 0, ENOENT, or an errno with a reason.
int take_completion(Cq& cq, completion::Completion& out, bool may_progress);

// The calling thread's number, see Cq::poller; cheap.
pid_t this_thread();

}  // namespace verbena::verbs
