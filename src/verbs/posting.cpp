// Posting and polling: work requests of the public form become the transport's, completions the reverse.
// Nothing is allocated and nothing is copied but the requests themselves.

#include "verbs/posting.h"

#include <algorithm>
#include <cerrno>

#include "adapter/clock.h"
#include "base/reason.h"
#include "verbs/objects.h"
#include "verbs/process.h"

namespace verbena::verbs {
namespace {

constexpr std::size_t kBatch = 16;

static_assert(sizeof(transport::Sge) == sizeof(ibv_sge) &&
              offsetof(transport::Sge, length) == offsetof(ibv_sge, length) &&
              offsetof(transport::Sge, lkey) == offsetof(ibv_sge, lkey));

std::span<const transport::Sge> sges_of(const ibv_sge* list, int count) {
    return {reinterpret_cast<const transport::Sge*>(list), static_cast<std::size_t>(count)};
}

bool is_datagram(const ibv_qp* qp) { return qp->qp_type == IBV_QPT_UD; }

transport::SendRequest to_transport(const ibv_qp* qp, const ibv_send_wr& wr) {
    transport::SendRequest request;
    request.wr_id = wr.wr_id;
    // What does not exist must not become something that does.
    request.operation = static_cast<transport::Operation>(std::min<unsigned>(wr.opcode, 0xff));
    request.flags = wr.send_flags;
    request.immediate_or_key = wr.imm_data;  // shares its place with invalidate_rkey
    request.sges = sges_of(wr.sg_list, wr.num_sge);
    if (is_datagram(qp)) {
        request.path = wr.wr.ud.ah ? &AddressHandle::of(wr.wr.ud.ah)->path : nullptr;
        request.remote_qp = wr.wr.ud.remote_qpn;
        request.remote_qkey = wr.wr.ud.remote_qkey;
    } else if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        request.remote_address = wr.wr.atomic.remote_addr;
        request.rkey = wr.wr.atomic.rkey;
        request.compare_add = wr.wr.atomic.compare_add;
        request.swap = wr.wr.atomic.swap;
    } else {
        request.remote_address = wr.wr.rdma.remote_addr;
        request.rkey = wr.wr.rdma.rkey;
    }
    return request;
}

ibv_wc to_public(const completion::Completion& in) {
    ibv_wc out;
    out.wr_id = in.wr_id;
    out.status = static_cast<ibv_wc_status>(in.status);
    out.opcode = static_cast<ibv_wc_opcode>(in.opcode);
    out.vendor_err = in.vendor_error;
    out.byte_len = in.byte_length;
    out.imm_data = in.immediate;
    out.qp_num = in.qp_number;
    out.src_qp = in.source_qp;
    out.wc_flags = in.flags;
    out.pkey_index = in.pkey_index;
    out.slid = in.source_lid;
    out.sl = in.service_level;
    out.dlid_path_bits = 0;
    return out;
}

// ibv_poll_cq(3): negative on failure.
int refuse_poll(const Process& process, const Cq& cq) {
    Call call("ibv_poll_cq");
    if (process.forked()) return -process.refuse();
    return -fail(EIO, "the completion queue has overrun: more than its %u completions waited",
                 cq.queue->capacity());
}

}  // namespace

const void* this_thread() {
    thread_local char mark;
    return &mark;
}

int post_send(ibv_qp* base, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
    Call call("ibv_post_send", "QP", base->qp_num);
    QueuePair* qp = QueuePair::of(base);
    Process* process = qp->context->process;
    int error = process->usable() ? 0 : process->refuse();
    const Time now = adapter::now();
    while (wr && !error) {
        transport::SendRequest batch[kBatch];
        ibv_send_wr* first = wr;
        std::size_t count = 0;
        for (; wr && count < kBatch; wr = wr->next, count++) {
            if (wr->num_sge < 0) {
                error = fail(EINVAL, "num_sge is %d", wr->num_sge);
                break;
            }
            batch[count] = to_transport(base, *wr);
        }
        std::size_t done = count;
        if (int refused = process->adapter().post_send(*qp->qp, {batch, count}, done, now)) {
            error = refused;
            for (wr = first; done; done--) wr = wr->next;
        }
    }
    if (process->usable()) process->engine().posted();
    if (error && bad_wr) *bad_wr = wr;
    return error;
}

int post_receive(ibv_qp* base, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
    Call call("ibv_post_recv", "QP", base->qp_num);
    QueuePair* qp = QueuePair::of(base);
    Process* process = qp->context->process;
    int error = process->usable() ? 0 : process->refuse();
    const Time now = adapter::now();
    while (wr && !error) {
        transport::ReceiveRequest batch[kBatch];
        ibv_recv_wr* first = wr;
        std::size_t count = 0;
        for (; wr && count < kBatch; wr = wr->next, count++) {
            if (wr->num_sge < 0) {
                error = fail(EINVAL, "num_sge is %d", wr->num_sge);
                break;
            }
            batch[count] = {wr->wr_id, sges_of(wr->sg_list, wr->num_sge)};
        }
        std::size_t done = count;
        if (int refused = process->adapter().post_receive(*qp->qp, {batch, count}, done, now)) {
            error = refused;
            for (wr = first; done; done--) wr = wr->next;
        }
    }
    if (error && bad_wr) *bad_wr = wr;
    return error;
}

int poll_cq(ibv_cq* base, int count, ibv_wc* wc) {
    Cq* cq = Cq::of(base);
    Process* process = Context::of(base->context)->process;
    if (process->forked() || cq->queue->in_error()) return refuse_poll(*process, *cq);
    // Before anything is taken: who sees the queue empty by us sees us at work (verbena_quiesce).
    cq->poller.store(this_thread(), std::memory_order_relaxed);
    cq->poller_at_work.store(true, std::memory_order_relaxed);
    int taken = 0;
    while (taken < count) {
        completion::Completion batch[kBatch];
        std::size_t wanted = std::min<std::size_t>(kBatch, static_cast<std::size_t>(count - taken));
        std::size_t got = cq->queue->poll({batch, wanted});
        for (std::size_t i = 0; i < got; i++) wc[taken++] = to_public(batch[i]);
        if (got == wanted) continue;
        // The queue is empty: the caller's time is what moves packets. Once only, so that a poll never
        // blocks.
        if (taken || !process->usable() || !process->engine().poll_progress()) break;
        got = cq->queue->poll({batch, wanted});
        for (std::size_t i = 0; i < got; i++) wc[taken++] = to_public(batch[i]);
        break;
    }
    if (taken == 0) cq->poller_at_work.store(false, std::memory_order_release);
    return taken;
}

int request_notification(ibv_cq* base, int solicited_only) {
    Process* process = Context::of(base->context)->process;
    if (process->forked()) {
        Call call("ibv_req_notify_cq");
        return process->refuse();
    }
    Cq::of(base)->queue->arm(solicited_only);
    if (process->usable()) process->engine().arm();
    return 0;
}

}  // namespace verbena::verbs
