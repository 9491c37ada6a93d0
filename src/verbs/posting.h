// The data path's entries: the slots of ibv_context_ops.
#pragma once

#include <infiniband/verbs.h>

namespace verbena::verbs {

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
int post_receive(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
int poll_cq(ibv_cq* cq, int count, ibv_wc* wc);
int request_notification(ibv_cq* cq, int solicited_only);

// An address that is the calling thread's own, see Cq::poller.
const void* this_thread();

}  // namespace verbena::verbs
