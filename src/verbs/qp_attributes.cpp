// Attributes of queue pairs (IBA 11.2.5.2 to 11.2.5.4): the public structure on one side, the transport's on
// the other. Which attributes a transition needs is the transport's to say.

#include <infiniband/verbs.h>

#include <cerrno>

#include "adapter/clock.h"
#include "base/call_fault.h"
#include "base/no_cancellation.h"
#include "base/out_of_memory.h"
#include "base/reason.h"
#include "memory/access.h"
#include "transport/qp_state_table.h"
#include "verbs/limits.h"
#include "verbs/objects.h"
#include "verbs/process.h"
#include "verbs/qp.h"
#include "verbs/queries.h"
#include "wire/path.h"

namespace verbena::verbs {
namespace {

constexpr std::uint32_t mtu_bytes(ibv_mtu mtu) { return 128u << mtu; }

constexpr ibv_mtu mtu_code(std::uint32_t bytes) {
    int code = IBV_MTU_256;
    while (code < IBV_MTU_4096 && mtu_bytes(static_cast<ibv_mtu>(code)) < bytes) code++;
    return static_cast<ibv_mtu>(code);
}

static_assert(kMaxRdAtomic == transport::kMaxRdAtomicLimit);
static_assert(mtu_bytes(IBV_MTU_256) == 256 && mtu_bytes(IBV_MTU_4096) == 4096);

// What has no counterpart in the transport's attributes, whose rules are its own (qp_state_table.cpp).
int check_values(const ibv_qp_attr& attr, int mask) {
    if ((mask & IBV_QP_STATE) && attr.qp_state > IBV_QPS_ERR)
        return fail(EINVAL, "qp_state %d is not a state", attr.qp_state);
    if ((mask & IBV_QP_PATH_MTU) && (attr.path_mtu < IBV_MTU_256 || attr.path_mtu > IBV_MTU_4096))
        return fail(EINVAL, "path_mtu is %d; enum ibv_mtu is 1 (256 bytes) to 5 (4096)", attr.path_mtu);
    if ((mask & IBV_QP_ACCESS_FLAGS) &&
        (attr.qp_access_flags & ~(memory::kAllRequired | memory::kOptionalMask)))
        return fail(EINVAL, "qp_access_flags 0x%x contain unknown bits", attr.qp_access_flags);
    if (mask & (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE))
        return fail(EOPNOTSUPP, "automatic path migration is not supported");
    if (mask & IBV_QP_CAP) return fail(EOPNOTSUPP, "queues cannot be resized");
    return 0;
}

// Programs set up both halves of an XRC connection alike; what the other half has is ignored, as a kernel
// does.
int without_ignored(ibv_qp_type type, int mask) {
    if (type == IBV_QPT_XRC_SEND) return mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (type == IBV_QPT_XRC_RECV)
        return mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
    return mask;
}

transport::Attributes to_transport(const ibv_qp_attr& attr) {
    transport::Attributes out;
    out.state = static_cast<transport::QpState>(attr.qp_state);
    out.current_state = static_cast<transport::QpState>(attr.cur_qp_state);
    out.path_mtu = mtu_bytes(attr.path_mtu);
    out.qkey = attr.qkey;
    out.rq_psn = attr.rq_psn & 0xffffff;
    out.sq_psn = attr.sq_psn & 0xffffff;
    out.destination_qp = attr.dest_qp_num;
    out.access = attr.qp_access_flags;
    out.pkey_index = attr.pkey_index;
    out.sqd_async_notify = attr.en_sqd_async_notify;
    out.max_rd_atomic = attr.max_rd_atomic;
    out.max_destination_rd_atomic = attr.max_dest_rd_atomic;
    out.min_rnr_timer = attr.min_rnr_timer;
    out.port = attr.port_num;
    out.timeout = attr.timeout;
    out.retry_count = attr.retry_cnt;
    out.rnr_retry = attr.rnr_retry;
    out.rate_limit = attr.rate_limit;
    return out;
}

ibv_qp_attr from_transport(const transport::Attributes& in) {
    ibv_qp_attr out{};
    out.qp_state = static_cast<ibv_qp_state>(in.state);
    out.cur_qp_state = static_cast<ibv_qp_state>(in.state);
    out.path_mtu = mtu_code(in.path_mtu);
    out.path_mig_state = IBV_MIG_MIGRATED;
    out.qkey = in.qkey;
    out.rq_psn = in.rq_psn;
    out.sq_psn = in.sq_psn;
    out.dest_qp_num = in.destination_qp;
    out.qp_access_flags = in.access;
    out.pkey_index = in.pkey_index;
    out.en_sqd_async_notify = in.sqd_async_notify;
    out.sq_draining = in.draining;
    out.max_rd_atomic = in.max_rd_atomic;
    out.max_dest_rd_atomic = in.max_destination_rd_atomic;
    out.min_rnr_timer = in.min_rnr_timer;
    out.port_num = in.port;
    out.timeout = in.timeout;
    out.retry_cnt = in.retry_count;
    out.rnr_retry = in.rnr_retry;
    out.rate_limit = in.rate_limit;
    return out;
}

}  // namespace

// The rate is in kbit/s. The packets' typical size is for adapters, which count packets rather than bytes.
int modify_qp_rate_limit(ibv_qp* base, ibv_qp_rate_limit_attr* attr) {
    Call call("ibv_modify_qp_rate_limit", "QP", base->qp_num);
    if (const Fault fault{"ibv_modify_qp_rate_limit"}) return fault.error();
    QueuePair* qp = QueuePair::of(base);
    if (!is_usable(*qp->context)) return errno;
    if (attr->comp_mask) return fail(EINVAL, "comp_mask 0x%x; no bit is defined", attr->comp_mask);
    transport::Attributes wanted;
    wanted.rate_limit = attr->rate_limit;
    wanted.max_burst = attr->max_burst_sz;
    Process* process = qp->context->process;
    if (int error = process->adapter().modify(*qp->qp, wanted, transport::kAttrRateLimit, adapter::now()))
        return error;
    process->engine().posted();
    return 0;
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

extern "C" {

int ibv_modify_qp(struct ibv_qp* base, struct ibv_qp_attr* attr, int mask) {
    if (const Fault fault{"ibv_modify_qp"}) return fault.error();
    Call call("ibv_modify_qp", "QP", base->qp_num);
    const NoCancellation whole;
    QueuePair* qp = QueuePair::of(base);
    if (!is_usable(*qp->context)) return errno;
    if (int error = check_values(*attr, mask)) return error;
    mask = without_ignored(base->qp_type, mask);
    transport::Attributes wanted = to_transport(*attr);
    ibv_ah_attr vector = attr->ah_attr;
    // As Linux has it for a connection, whatever the program says: many say 1, and work through routers.
    vector.grh.hop_limit = wire::kDefaultHopLimit;
    if (mask & IBV_QP_AV) {
        if (int error = resolve_path(*qp->context, vector, wanted.path)) return error;
        if (!wanted.path.udp_source_port) {
            std::uint32_t peer = (mask & IBV_QP_DEST_QPN) ? attr->dest_qp_num : 0;
            wanted.path.udp_source_port =
                wire::udp_source_port(wire::flow_label_from_qpns(base->qp_num, peer));
        }
        if (int error = qp->context->process->provide_for(wanted.path)) return errno = error;
    }
    const int error = unless_out_of_memory([&] {
        return qp->context->process->adapter().modify(*qp->qp, wanted, static_cast<std::uint32_t>(mask),
                                                      adapter::now());
    });
    if (error) return error;
    if (mask & IBV_QP_STATE) base->state = attr->qp_state;
    if (mask & IBV_QP_AV) qp->address_vector = vector;
    if ((mask & IBV_QP_STATE) && (mask & IBV_QP_AV)) {
        transport::Attributes current;
        qp->context->process->adapter().query(*qp->qp, current);
        qp->context->process->meet(current.path.destination, current.destination_qp);
    }
    qp->context->process->engine().posted();
    return 0;
}

int ibv_query_qp(struct ibv_qp* base, struct ibv_qp_attr* attr, int mask,
                 struct ibv_qp_init_attr* init_attr) {
    if (const Fault fault{"ibv_query_qp"}) return fault.error();
    Call call("ibv_query_qp", "QP", base->qp_num);
    QueuePair* qp = QueuePair::of(base);
    if (qp->context->process->forked()) return qp->context->process->refuse();
    transport::Attributes now;
    qp->context->process->adapter().query(*qp->qp, now);
    *attr = from_transport(now);
    attr->cap = qp->created.cap;
    attr->ah_attr = qp->address_vector;
    // What programs read there is what they have set or asked for: UCX asks for a failed queue pair's
    // address, and ends where the state is another afterwards.
    if (mask & IBV_QP_STATE) base->state = attr->qp_state;
    if (init_attr) {
        *init_attr = qp->created;
        init_attr->qp_context = base->qp_context;
    }
    return 0;
}

int ibv_query_qp_data_in_order(struct ibv_qp*, enum ibv_wr_opcode, uint32_t) {
    return 0;  // the last bytes of a message may be placed before earlier ones
}

}  // extern "C"
