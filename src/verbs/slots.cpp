#include "verbs/slots.h"

#include <cerrno>
#include <type_traits>

#include "base/reason.h"

namespace verbena::verbs {
namespace {

template <class Result, class... Arguments>
Result unsupported(Arguments...) {
    constexpr const char* kText = "this call is not supported";
    if constexpr (std::is_pointer_v<Result>)
        return fail_null(EOPNOTSUPP, "%s", kText);
    else if constexpr (std::is_void_v<Result>)
        fail(EOPNOTSUPP, "%s", kText);
    else
        return fail(EOPNOTSUPP, "%s", kText);
}

template <class Result, class... Arguments>
void fill(Result (*&slot)(Arguments...)) {
    if (!slot) slot = unsupported<Result, Arguments...>;
}

template <class... Slots>
void fill_all(Slots&... slots) {
    (fill(slots), ...);
}

}  // namespace

void fill_unsupported(abi::VerbsContextEx& c) {
    verbs_context& b = c.base;
    fill_all(c.free_buf, c.alloc_buf, c.dm_export_dmabuf_fd, c.reg_mr_ex, c.dealloc_dmah, c.alloc_dmah,
             b.query_port, b.advise_mr, b.alloc_null_mr, b.read_counters, b.attach_counters_point_flow,
             b.create_counters, b.destroy_counters, b.reg_dm_mr, b.alloc_dm, b.free_dm,
             b.modify_flow_action_esp, b.destroy_flow_action, b.create_flow_action_esp,
             b.modify_qp_rate_limit, b.alloc_parent_domain, b.dealloc_td, b.alloc_td, b.modify_cq,
             b.post_srq_ops, b.destroy_rwq_ind_table, b.create_rwq_ind_table, b.destroy_wq, b.modify_wq,
             b.create_wq, b.query_rt_values, b.create_cq_ex, b.query_device_ex, b.ibv_destroy_flow,
             b.ABI_placeholder2, b.ibv_create_flow, b.ABI_placeholder1, b.open_qp, b.create_qp_ex,
             b.get_srq_num, b.create_srq_ex, b.open_xrcd, b.close_xrcd);
    ibv_context_ops& ops = b.context.ops;
    fill_all(ops.alloc_mw, ops.bind_mw, ops.dealloc_mw, ops.poll_cq, ops.req_notify_cq, ops.post_srq_recv,
             ops.post_send, ops.post_recv);
    // Entries of headers older than v20; only their presence matters today.
    fill_all(ops._compat_query_device, ops._compat_query_port, ops._compat_alloc_pd, ops._compat_dealloc_pd,
             ops._compat_reg_mr, ops._compat_rereg_mr, ops._compat_dereg_mr, ops._compat_create_cq,
             ops._compat_cq_event, ops._compat_resize_cq, ops._compat_destroy_cq, ops._compat_create_srq,
             ops._compat_modify_srq, ops._compat_query_srq, ops._compat_destroy_srq, ops._compat_create_qp,
             ops._compat_query_qp, ops._compat_modify_qp, ops._compat_destroy_qp, ops._compat_create_ah,
             ops._compat_destroy_ah, ops._compat_attach_mcast, ops._compat_detach_mcast,
             ops._compat_async_event);
}

}  // namespace verbena::verbs
