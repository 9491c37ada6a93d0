// Completion counters (ibv_create_comp_cntr(3), ibv_qp_attach_comp_cntr(3); after release 64): all six
// operations can be counted, in work requests or bytes. What counts when says transport/completion_counter.h.

#include <infiniband/verbs.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>

#include "adapter/adapter.h"
#include "base/call_fault.h"
#include "base/out_of_memory.h"
#include "base/reason.h"
#include "transport/completion_counter.h"
#include "verbs/limits.h"
#include "verbs/objects.h"
#include "verbs/process.h"

using namespace verbena;
using namespace verbena::verbs;

namespace {

constexpr std::uint32_t kAllOperations = (1u << transport::kCountedOperations) - 1;

std::atomic<std::uint32_t> counters_made{0};  // and not destroyed
std::atomic<std::uint32_t> last_handle{0};

struct CompCntr {
    ibv_comp_cntr base{};
    std::shared_ptr<transport::CompletionCounter> counter;  // queue pairs that it is attached to share it

    static CompCntr* of(ibv_comp_cntr* counter) { return reinterpret_cast<CompCntr*>(counter); }
    static transport::CompletionCounter& counts(ibv_comp_cntr* counter) { return *of(counter)->counter; }
};

}  // namespace

extern "C" {

int _ibv_query_comp_cntr_caps(struct ibv_context* context, struct ibv_comp_cntr_caps* caps, size_t size) {
    if (const Fault fault{"_ibv_query_comp_cntr_caps"}) return fault.error();
    Call call("ibv_query_comp_cntr_caps");
    if (!context || !caps) return fail(EINVAL, "context or caps is NULL");
    const ibv_comp_cntr_caps ours{UINT64_MAX, kMaxCompletionCounters, kAllOperations};
    std::memset(caps, 0, size);  // what a newer program knows of besides
    std::memcpy(caps, &ours, std::min(size, sizeof ours));
    return 0;
}

struct ibv_comp_cntr* ibv_create_comp_cntr(struct ibv_context* context,
                                           struct ibv_comp_cntr_init_attr* attributes) {
    if (const Fault fault{"ibv_create_comp_cntr"}) return fault.null();
    Call call("ibv_create_comp_cntr");
    if (!context || !attributes) return fail_null(EINVAL, "context or cc_attr is NULL");
    if (!is_usable(*Context::of(context))) return nullptr;
    if (attributes->comp_mask || attributes->flags)
        return fail_null(EINVAL, "comp_mask is 0x%x and flags 0x%x; no bit of either is defined",
                         attributes->comp_mask, attributes->flags);
    const int type = attributes->type;
    if (type != IBV_COMP_CNTR_TYPE_WRS && type != IBV_COMP_CNTR_TYPE_BYTES)
        return fail_null(EINVAL, "type is %d; WRS (0) and BYTES (1) are known", type);
    if (counters_made.fetch_add(1) >= kMaxCompletionCounters) {
        counters_made--;
        return fail_null(ENOMEM, "%u completion counters exist, which is max_counters",
                         kMaxCompletionCounters);
    }
    CompCntr* made = unless_out_of_memory([&] {
        auto counter = std::make_shared<transport::CompletionCounter>(type == IBV_COMP_CNTR_TYPE_BYTES);
        return new CompCntr{{context, ++last_handle}, std::move(counter)};
    });
    if (!made) counters_made--;
    return made ? &made->base : nullptr;
}

int ibv_destroy_comp_cntr(struct ibv_comp_cntr* counter) {
    if (const Fault fault{"ibv_destroy_comp_cntr"}) return fault.error();
    Call call("ibv_destroy_comp_cntr");
    CompCntr* ours = CompCntr::of(counter);
    if (!ours) return fail(EINVAL, "comp_cntr is NULL");
    if (ours->counter.use_count() > 1)
        return fail(EBUSY, "queue pairs count with it; there is no detaching, they are destroyed first");
    delete ours;
    counters_made--;
    return 0;
}

int ibv_set_comp_cntr(struct ibv_comp_cntr* counter, uint64_t value) {
    if (const Fault fault{"ibv_set_comp_cntr"}) return fault.error();
    CompCntr::counts(counter).completed.store(value);
    return 0;
}

int ibv_set_err_comp_cntr(struct ibv_comp_cntr* counter, uint64_t value) {
    if (const Fault fault{"ibv_set_err_comp_cntr"}) return fault.error();
    CompCntr::counts(counter).failed.store(value);
    return 0;
}

int ibv_inc_comp_cntr(struct ibv_comp_cntr* counter, uint64_t amount) {
    if (const Fault fault{"ibv_inc_comp_cntr"}) return fault.error();
    CompCntr::counts(counter).completed += amount;
    return 0;
}

int ibv_inc_err_comp_cntr(struct ibv_comp_cntr* counter, uint64_t amount) {
    if (const Fault fault{"ibv_inc_err_comp_cntr"}) return fault.error();
    CompCntr::counts(counter).failed += amount;
    return 0;
}

int ibv_read_comp_cntr(struct ibv_comp_cntr* counter, uint64_t* value) {
    if (const Fault fault{"ibv_read_comp_cntr"}) return fault.error();
    *value = CompCntr::counts(counter).completed.load();
    return 0;
}

int ibv_read_err_comp_cntr(struct ibv_comp_cntr* counter, uint64_t* value) {
    if (const Fault fault{"ibv_read_err_comp_cntr"}) return fault.error();
    *value = CompCntr::counts(counter).failed.load();
    return 0;
}

int ibv_qp_attach_comp_cntr(struct ibv_qp* handle, struct ibv_comp_cntr* counter,
                            struct ibv_qp_attach_comp_cntr_attr* attributes) {
    if (const Fault fault{"ibv_qp_attach_comp_cntr"}) return fault.error();
    if (!handle || !counter || !attributes) return fail(EINVAL, "qp, comp_cntr or attr is NULL");
    Call call("ibv_qp_attach_comp_cntr", "QP", handle->qp_num);
    QueuePair& qp = *QueuePair::of(handle);
    if (!is_usable(*qp.context)) return errno;
    if (counter->context != handle->context) return fail(EINVAL, "the counter belongs to another context");
    if (attributes->comp_mask)
        return fail(EINVAL, "comp_mask is 0x%x; no bit is defined", attributes->comp_mask);
    if (attributes->op_mask & ~kAllOperations)
        return fail(EOPNOTSUPP, "op_mask is 0x%x; 0x%x are known", attributes->op_mask, kAllOperations);
    if (attributes->op_mask == 0) return fail(EINVAL, "op_mask names no operation");
    return qp.context->process->adapter().attach(*qp.qp, CompCntr::of(counter)->counter, attributes->op_mask);
}

}  // extern "C"
