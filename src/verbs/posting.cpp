// Posting and polling: work requests of the public form become the transport's, completions the reverse.
// Nothing is allocated and nothing is copied but the requests themselves.

#include "verbs/posting.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include "adapter/clock.h"
#include "adapter/short.h"
#include "base/call_fault.h"
#include "base/out_of_memory.h"
#include "base/put_off.h"
#include "base/quick_thread_local.h"
#include "base/reason.h"
#include "verbs/mw.h"
#include "verbs/objects.h"
#include "verbs/process.h"

namespace verbena::verbs {
namespace {

constexpr std::size_t kBatch = 16;

VERBENA_QUICK_THREAD_LOCAL constinit pid_t thread_number = 0;

// Places for a batch, without setting up those that nobody fills: most lists have one request, and a program
// that waits polls for many completions and gets none.
template <class T>
class Places {
   public:
    T& make(std::size_t place) { return *new (data() + place) T; }
    T* data() { return reinterpret_cast<T*>(bytes_); }

   private:
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
    alignas(T) std::byte bytes_[kBatch * sizeof(T)];
};

static_assert(sizeof(transport::Sge) == sizeof(ibv_sge) &&
              offsetof(transport::Sge, length) == offsetof(ibv_sge, length) &&
              offsetof(transport::Sge, lkey) == offsetof(ibv_sge, lkey));

std::span<const transport::Sge> sges_of(const ibv_sge* list, int count) {
    return {reinterpret_cast<const transport::Sge*>(list), static_cast<std::size_t>(count)};
}

bool is_datagram(const ibv_qp* qp) { return qp->qp_type == IBV_QPT_UD; }

// The operations that name an address handle; in any other's request there is something else in its place.
bool is_send(const ibv_send_wr& wr) { return wr.opcode == IBV_WR_SEND || wr.opcode == IBV_WR_SEND_WITH_IMM; }

void set_atomic(const ibv_send_wr& wr, transport::SendRequest& request) {
    request.remote_address = wr.wr.atomic.remote_addr;
    request.rkey = wr.wr.atomic.rkey;
    request.compare_add = wr.wr.atomic.compare_add;
    request.swap = wr.wr.atomic.swap;
}

int to_transport(const ibv_qp* qp, const ibv_send_wr& wr, transport::SendRequest& request) {
    request.wr_id = wr.wr_id;
    // What does not exist must not become something that does.
    request.operation = static_cast<transport::Operation>(std::min<unsigned>(wr.opcode, 0xff));
    request.flags = wr.send_flags;
    request.immediate_or_key = wr.imm_data;  // shares its place with invalidate_rkey
    request.sges = sges_of(wr.sg_list, wr.num_sge);
    request.remote_srq = wr.qp_type.xrc.remote_srqn;
    if (is_datagram(qp)) {
        if (is_send(wr) && wr.wr.ud.ah) {
            request.path = &AddressHandle::of(wr.wr.ud.ah)->path;
            request.path_pd = Pd::of(wr.wr.ud.ah->pd)->number;
        }
        request.remote_qp = wr.wr.ud.remote_qpn;
        request.remote_qkey = wr.wr.ud.remote_qkey;
    } else if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        set_atomic(wr, request);
    } else if (wr.opcode != IBV_WR_BIND_MW) {
        request.remote_address = wr.wr.rdma.remote_addr;
        request.rkey = wr.wr.rdma.rkey;
        // Of ibv_wr_atomic_write() alone they come along without one.
        if (wr.opcode == IBV_WR_ATOMIC_WRITE && wr.num_sge == 0)
            return fail(EINVAL, "an atomic write needs an element of 8 bytes; num_sge is 0");
    }
    if (wr.opcode == IBV_WR_BIND_MW)
        return describe_bind(wr.bind_mw.mw, wr.bind_mw.rkey, wr.bind_mw.bind_info, request);
    return 0;
}

// Posts a list in batches: `convert` makes the transport's request of a public one or says what is wrong with
// it, `submit(batch, done)` posts a batch and says how many went in. Stops at the first that is refused,
// which `bad_wr` then names.
template <class Request, class PublicRequest, class Convert, class Submit>
int post_list(const Process& process, PublicRequest* wr, PublicRequest** bad_wr, Convert convert,
              Submit submit) {
    int error = process.usable() ? 0 : process.refuse();
    while (wr && !error) {
        Places<Request> batch;
        PublicRequest* first = wr;
        std::size_t count = 0;
        for (; wr && count < kBatch; wr = wr->next, count++) {
            if (wr->num_sge < 0) {
                error = fail(EINVAL, "num_sge is %d", wr->num_sge);
                break;
            }
            if ((error = convert(*wr, batch.make(count))) != 0) break;
        }
        std::size_t done = count;
        const auto post = [&] { return submit(std::span<const Request>(batch.data(), count), done); };
        if (int refused = unless_out_of_memory(post)) {
            error = refused;
            for (wr = first; wr && done; done--) wr = wr->next;
        }
    }
    if (error && bad_wr) *bad_wr = wr;
    return error;
}

void to_public(const completion::Completion& in, ibv_wc& out) {
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
}

int refuse_poll(const Process& process, const Cq& cq, const char* name) {
    Call call(name);
    if (process.forked()) return process.refuse();
    return fail(EIO, "the completion queue has overrun: more than its %u completions waited",
                cq.queue->capacity());
}

// Bytes of a WRITE or READ, which the call that posts it may execute, from which on its time is worth
// measuring.
constexpr std::uint32_t kTakesLong = 128 << 10;

// The most usual posts: one request of RC that can be done at once, without a reason to refuse it.
bool may_go_straight(const ibv_qp* base, const ibv_send_wr* wr) {
    return wr && !wr->next && base->qp_type == IBV_QPT_RC && !(wr->num_sge & ~1) && !calls_may_fail() &&
           Context::of(base->context)->process->usable();
}

// One that is short, to a peer of this host. False: nothing was done.
[[gnu::always_inline]] inline bool post_short(const ibv_qp* base, const ibv_send_wr* wr) {
    if (wr->opcode > IBV_WR_SEND_WITH_IMM) return false;
    Process& process = *Context::of(base->context)->process;
    transport::SendRequest request;
    request.wr_id = wr->wr_id;
    request.operation = static_cast<transport::Operation>(wr->opcode);
    request.flags = wr->send_flags;
    request.immediate_or_key = wr->imm_data;
    if (wr->opcode < IBV_WR_SEND) {
        request.remote_address = wr->wr.rdma.remote_addr;
        request.rkey = wr->wr.rdma.rkey;
    }
    request.sges = sges_of(wr->sg_list, wr->num_sge);
    if (!process.adapter().post_short(base->qp_num, request, adapter::now)) [[unlikely]]
        return false;
    process.engine().posted();
    return true;
}

// Any of those. False: nothing was done, and it goes the way of all others.
[[gnu::noinline]] bool post_straight(const ibv_qp* base, const ibv_send_wr* wr) {
    Process& process = *Context::of(base->context)->process;
    transport::SendRequest request;
    switch (wr->opcode) {
        case IBV_WR_SEND_WITH_IMM:
            request.immediate_or_key = wr->imm_data;
            break;
        case IBV_WR_SEND:
            break;
        case IBV_WR_RDMA_WRITE:
        case IBV_WR_RDMA_READ:
            request.remote_address = wr->wr.rdma.remote_addr;
            request.rkey = wr->wr.rdma.rkey;
            break;
        case IBV_WR_ATOMIC_CMP_AND_SWP:
        case IBV_WR_ATOMIC_FETCH_AND_ADD:
            set_atomic(*wr, request);
            break;
        default:
            return false;
    }
    request.wr_id = wr->wr_id;
    request.operation = static_cast<transport::Operation>(wr->opcode);
    request.flags = wr->send_flags;
    request.sges = sges_of(wr->sg_list, wr->num_sge);
    const bool takes_long = request.is_one_sided() && wr->num_sge == 1 && wr->sg_list->length >= kTakesLong;
    const Time begin = takes_long ? adapter::now() : 0;
    if (!process.adapter().post_straight(base->qp_num, request, adapter::now)) [[unlikely]]
        return false;
    if (takes_long) [[unlikely]]
        process.engine().posted(begin);
    else
        process.engine().posted();
    return true;
}

[[gnu::always_inline]] inline bool post_short(ibv_qp* base, const ibv_recv_wr* wr) {
    if (!wr || wr->next || wr->num_sge < 0 || calls_may_fail()) [[unlikely]]
        return false;
    const QueuePair& qp = *QueuePair::of(base);
    Process& process = *qp.context->process;
    return process.usable() && qp.own_receives &&
           process.adapter().post_short(*qp.own_receives, base->qp_num,
                                        {wr->wr_id, sges_of(wr->sg_list, wr->num_sge)}, adapter::now);
}

// By a plan of faults.
template <class PublicRequest>
int refused(const Fault& fault, PublicRequest* wr, PublicRequest** bad_wr) {
    if (bad_wr) *bad_wr = wr;
    return fault.error();
}

template <class Post>
int post_receives(const Process& process, ibv_recv_wr* wr, ibv_recv_wr** bad_wr, Post post) {
    return post_list<transport::ReceiveRequest>(
        process, wr, bad_wr,
        [](const ibv_recv_wr& each, transport::ReceiveRequest& request) {
            request = {each.wr_id, sges_of(each.sg_list, each.num_sge)};
            return 0;
        },
        post);
}

// The way of all others. Not inlined, since what these need the straight ones would have to set up.
[[gnu::noinline]] int post_any_send(ibv_qp* base, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
    Call call("ibv_post_send", "QP", base->qp_num);
    if (const Fault fault{"ibv_post_send"}) return refused(fault, wr, bad_wr);
    Process* process = Context::of(base->context)->process;
    const Time begin = adapter::now();
    bool goes_on = false;
    const int error = post_list<transport::SendRequest>(
        *process, wr, bad_wr,
        [base](const ibv_send_wr& each, transport::SendRequest& request) {
            return to_transport(base, each, request);
        },
        [&](std::span<const transport::SendRequest> batch, std::size_t& done) {
            return process->adapter().post_send(base->qp_num, batch, done, adapter::now(), false,
                                                std::exchange(goes_on, true));
        });
    if (!process->usable()) return error;
    if (error)
        process->engine().posted();
    else
        process->engine().posted(begin);
    return error;
}

[[gnu::noinline]] int post_any_receive(ibv_qp* base, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
    QueuePair* qp = QueuePair::of(base);
    Call call("ibv_post_recv", "QP", base->qp_num);
    if (const Fault fault{"ibv_post_recv"}) return refused(fault, wr, bad_wr);
    Process* process = qp->context->process;
    if (!qp->own_receives) {
        if (bad_wr) *bad_wr = wr;
        return fail(EINVAL, "the queue pair has no receive queue of its own");
    }
    const int error = post_receives(*process, wr, bad_wr, [&](auto requests, std::size_t& done) {
        return process->adapter().post_receive(*qp->qp, requests, done, adapter::now);
    });
    // One that is flushed at once may have set the time of a moderated event.
    if (process->usable()) process->engine().posted();
    return error;
}

}  // namespace

pid_t this_thread() {
    if (!thread_number) thread_number = gettid();
    return thread_number;
}

int post_send(ibv_qp* base, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
    const PutOff behind_locks;
    if (may_go_straight(base, wr) && (post_short(base, wr) || post_straight(base, wr))) [[likely]]
        return 0;
    return post_any_send(base, wr, bad_wr);
}

int post_receive(ibv_qp* base, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
    if (post_short(base, wr)) [[likely]]
        return 0;
    return post_any_receive(base, wr, bad_wr);
}

int post_shared_receive(ibv_srq* base, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
    Srq* srq = Srq::of(base);
    Call call("ibv_post_srq_recv", "SRQ", srq->number);
    if (const Fault fault{"ibv_post_srq_recv"}) return refused(fault, wr, bad_wr);
    Process* process = srq->context->process;
    const int error = post_receives(*process, wr, bad_wr, [&](auto requests, std::size_t& done) {
        return process->adapter().post_shared_receive(*srq->queue, requests, done, adapter::now);
    });
    if (process->usable()) process->engine().posted();  // who waited for one may have sent
    return error;
}

int poll_cq(ibv_cq* base, int count, ibv_wc* wc) {
    if (const Fault fault{"ibv_poll_cq"}) return -fault.error();
    Cq& cq = *Cq::of(base);
    completion::CompletionQueue& queue = *cq.queue;
    Process* process = Context::of(base->context)->process;
    if (process->forked() || queue.in_error()) [[unlikely]]
        return -refuse_poll(*process, cq, "ibv_poll_cq");
    // Before anything is taken: who sees the queue empty by us sees us at work (verbena_quiesce).
    cq.poller.store(this_thread(), std::memory_order_relaxed);
    cq.poller_at_work.store(true, std::memory_order_relaxed);
    // If the queue is empty the caller's time is what moves packets. Once only, so that a poll never blocks.
    std::size_t taken = 0;
    const bool waits = queue.waiting() > 0;
    if (waits) adapter::Engine::poll_found();
    if (count > 0 && (waits || (process->usable() && process->engine().poll_progress())))
        taken = queue.poll_each(static_cast<std::size_t>(count),
                                [&wc](const completion::Completion& each) { to_public(each, *wc++); });
    if (taken == 0) cq.polled_in_vain();
    return static_cast<int>(taken);
}

int take_completion(Cq& cq, completion::Completion& out, bool may_progress) {
    if (const Fault fault{may_progress ? "ibv_start_poll" : "ibv_next_poll"}) return fault.error();
    Process* process = Context::of(cq.shown.base.context)->process;
    if (process->forked() || cq.queue->in_error()) return refuse_poll(*process, cq, "ibv_start_poll");
    if (!may_progress) return cq.queue->poll({&out, 1}) ? 0 : ENOENT;
    // As in poll_cq.
    cq.poller.store(this_thread(), std::memory_order_relaxed);
    cq.poller_at_work.store(true, std::memory_order_relaxed);
    if (cq.queue->poll({&out, 1})) {
        adapter::Engine::poll_found();
        return 0;
    }
    if (process->usable() && process->engine().poll_progress() && cq.queue->poll({&out, 1})) return 0;
    cq.polled_in_vain();
    return ENOENT;
}

int request_notification(ibv_cq* base, int solicited_only) {
    if (const Fault fault{"ibv_req_notify_cq"}) return fault.error();
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
