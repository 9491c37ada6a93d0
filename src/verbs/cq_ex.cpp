// Extended completion queues (ibv_create_cq_ex(3)): polled one completion at a time, whose fields are read by
// functions.
//
// Between a successful start_poll and its end_poll the thread holds the queue's poll lock, unless the queue
// was created for a single thread. ibv_poll_cq on the same queue takes what this interface has not taken.

#include <infiniband/verbs.h>

#include <cerrno>

#include "adapter/clock.h"
#include "base/call_fault.h"
#include "base/reason.h"
#include "verbs/cq.h"
#include "verbs/objects.h"
#include "verbs/posting.h"
#include "verbs/process.h"

namespace verbena::verbs {
namespace {

constexpr std::uint64_t kTimes =
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
// The device has neither flow steering nor tag matching, of whose completions the last two tell.
constexpr std::uint64_t kSupported = std::uint64_t{IBV_WC_STANDARD_FLAGS} | kTimes | IBV_WC_EX_WITH_CVLAN |
                                     IBV_WC_EX_WITH_FLOW_TAG | IBV_WC_EX_WITH_TM_INFO;
constexpr std::uint32_t kCreateFlags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;

Cq& queue(ibv_cq_ex* ex) { return *Cq::of(ibv_cq_ex_to_cq(ex)); }
const completion::Completion& current(ibv_cq_ex* ex) { return queue(ex).current; }

// The next completion becomes the current one. 0, ENOENT, or an error with a reason.
int take(Cq& cq, bool may_progress) {
    if (int error = take_completion(cq, cq.current, may_progress)) return error;
    cq.shown.base.status = static_cast<ibv_wc_status>(cq.current.status);
    cq.shown.base.wr_id = cq.current.wr_id;
    return 0;
}

int start_poll(ibv_cq_ex* ex, ibv_poll_cq_attr* attr) {
    Cq& cq = queue(ex);
    if (attr->comp_mask) {
        Call call("ibv_start_poll");
        return fail(EINVAL, "comp_mask 0x%x is unknown", attr->comp_mask);
    }
    if (!cq.single_threaded) cq.poll_lock.lock();
    const int error = take(cq, true);
    if (error && !cq.single_threaded) cq.poll_lock.unlock();
    return error;
}

int next_poll(ibv_cq_ex* ex) { return take(queue(ex), false); }

void end_poll(ibv_cq_ex* ex) {
    Cq& cq = queue(ex);
    if (!cq.single_threaded) cq.poll_lock.unlock();
}

ibv_wc_opcode read_opcode(ibv_cq_ex* ex) { return static_cast<ibv_wc_opcode>(current(ex).opcode); }
std::uint32_t read_vendor_err(ibv_cq_ex* ex) { return current(ex).vendor_error; }
std::uint32_t read_byte_len(ibv_cq_ex* ex) { return current(ex).byte_length; }
__be32 read_imm_data(ibv_cq_ex* ex) { return current(ex).immediate; }
std::uint32_t read_qp_num(ibv_cq_ex* ex) { return current(ex).qp_number; }
std::uint32_t read_src_qp(ibv_cq_ex* ex) { return current(ex).source_qp; }
unsigned int read_wc_flags(ibv_cq_ex* ex) { return current(ex).flags; }
std::uint32_t read_slid(ibv_cq_ex* ex) { return current(ex).source_lid; }
std::uint8_t read_sl(ibv_cq_ex* ex) { return current(ex).service_level; }
std::uint8_t read_dlid_path_bits(ibv_cq_ex*) { return 0; }  // RoCE has no LIDs
std::uint16_t read_cvlan(ibv_cq_ex*) { return 0; }          // the kernel takes VLAN tags off before us
std::uint32_t read_flow_tag(ibv_cq_ex*) { return 0; }       // as of any packet that no rule has met
void read_tm_info(ibv_cq_ex*, ibv_wc_tm_info* info) { *info = {}; }
std::uint64_t read_completion_ts(ibv_cq_ex* ex) { return current(ex).timestamp; }

std::uint64_t read_completion_wallclock_ns(ibv_cq_ex* ex) {
    return static_cast<std::uint64_t>(adapter::wall_time_of(static_cast<Time>(current(ex).timestamp)));
}

// Only what was asked for is there, as with any provider.
void install(ibv_cq_ex& ex, std::uint64_t wc_flags) {
    ex.start_poll = start_poll;
    ex.next_poll = next_poll;
    ex.end_poll = end_poll;
    ex.read_opcode = read_opcode;
    ex.read_vendor_err = read_vendor_err;
    ex.read_wc_flags = read_wc_flags;
    auto with = [wc_flags](std::uint64_t flag, auto& slot, auto function) {
        if (wc_flags & flag) slot = function;
    };
    with(IBV_WC_EX_WITH_BYTE_LEN, ex.read_byte_len, read_byte_len);
    with(IBV_WC_EX_WITH_IMM, ex.read_imm_data, read_imm_data);
    with(IBV_WC_EX_WITH_QP_NUM, ex.read_qp_num, read_qp_num);
    with(IBV_WC_EX_WITH_SRC_QP, ex.read_src_qp, read_src_qp);
    with(IBV_WC_EX_WITH_SLID, ex.read_slid, read_slid);
    with(IBV_WC_EX_WITH_SL, ex.read_sl, read_sl);
    with(IBV_WC_EX_WITH_DLID_PATH_BITS, ex.read_dlid_path_bits, read_dlid_path_bits);
    with(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, ex.read_completion_ts, read_completion_ts);
    with(IBV_WC_EX_WITH_CVLAN, ex.read_cvlan, read_cvlan);
    with(IBV_WC_EX_WITH_FLOW_TAG, ex.read_flow_tag, read_flow_tag);
    with(IBV_WC_EX_WITH_TM_INFO, ex.read_tm_info, read_tm_info);
    with(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK, ex.read_completion_wallclock_ns,
         read_completion_wallclock_ns);
}

}  // namespace

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) {
    Call call("ibv_create_cq_ex");
    if (const Fault fault{"ibv_create_cq_ex"}) return fault.null();
    constexpr std::uint32_t kKnown = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    if (attr->comp_mask & ~kKnown)
        return fail_null(EOPNOTSUPP, "comp_mask bits 0x%x are not supported", attr->comp_mask & ~kKnown);
    if (attr->wc_flags & ~kSupported)
        return fail_null(EOPNOTSUPP, "wc_flags 0x%llx are not supported",
                         static_cast<unsigned long long>(attr->wc_flags & ~kSupported));
    const std::uint32_t flags = (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) ? attr->flags : 0;
    if (flags & ~kCreateFlags)
        return fail_null(EOPNOTSUPP, "flags 0x%x are not supported", flags & ~kCreateFlags);
    Pd* domain = nullptr;
    if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) {
        if (!attr->parent_domain || !Pd::of(attr->parent_domain)->parent)
            return fail_null(EINVAL, "parent_domain is no parent domain");
        domain = Pd::of(attr->parent_domain);
        if (domain->base.context != context)
            return fail_null(EINVAL, "the parent domain belongs to another context");
    }
    Cq* cq = create_completion_queue(context, {attr->cqe, attr->cq_context, attr->channel, attr->comp_vector,
                                               (flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0});
    if (!cq) return nullptr;
    cq->single_threaded =
        (flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0 || (domain && domain->thread_domain);
    cq->domain = domain;
    if (domain) domain->enter();
    install(cq->shown.base, attr->wc_flags);
    if (attr->wc_flags & kTimes) Context::of(context)->process->adapter().tell_time();
    return &cq->shown.base;
}

int modify_cq(ibv_cq* base, ibv_modify_cq_attr* attr) {
    Call call("ibv_modify_cq");
    if (const Fault fault{"ibv_modify_cq"}) return fault.error();
    constexpr std::uint32_t kKnown = IBV_CQ_ATTR_MODERATE;
    if (attr->attr_mask == 0 || (attr->attr_mask & ~kKnown))
        return fail(EINVAL, "attr_mask 0x%x; IBV_CQ_ATTR_MODERATE is what there is", attr->attr_mask);
    if (!is_usable(*Context::of(base->context))) return errno;
    Process* process = Context::of(base->context)->process;
    Cq::of(base)->queue->moderate(attr->moderate.cq_count, attr->moderate.cq_period * kMicrosecond,
                                  process->adapter().event_deadlines());
    process->engine().posted();
    return 0;
}

}  // namespace verbena::verbs
