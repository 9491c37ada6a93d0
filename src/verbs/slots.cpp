#include "verbs/slots.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <type_traits>

#include "base/reason.h"

namespace verbena::verbs {
namespace {

// The name of a public call as a template's argument.
template <std::size_t kSize>
struct Name {
    consteval Name(const char (&name)[kSize]) { std::copy_n(name, kSize, text); }
    char text[kSize];
};

template <Name kName, class Result, class... Arguments>
Result unsupported(Arguments...) {
    Call call(kName.text);
    constexpr const char* kText = "this call is not supported";
    if constexpr (std::is_pointer_v<Result>)
        return fail_null(EOPNOTSUPP, "%s", kText);
    else if constexpr (std::is_void_v<Result>)
        fail(EOPNOTSUPP, "%s", kText);
    else
        return fail(EOPNOTSUPP, "%s", kText);
}

template <Name kName, class Result, class... Arguments>
void fill(Result (*&slot)(Arguments...)) {
    if (!slot) slot = unsupported<kName, Result, Arguments...>;
}

// Entries of headers older than v20; only their presence matters today.
template <class... Slots>
void fill_old(Slots&... slots) {
    (fill<"a call of headers before v20">(slots), ...);
}

}  // namespace

void fill_unsupported(abi::VerbsContextEx& c) {
    verbs_context& b = c.base;
    ibv_context_ops& ops = b.context.ops;
    fill<"ibv_free_buf">(c.free_buf);
    fill<"ibv_alloc_buf">(c.alloc_buf);
    fill<"ibv_dm_export_dmabuf_fd">(c.dm_export_dmabuf_fd);
    fill<"ibv_reg_mr_ex">(c.reg_mr_ex);
    fill<"ibv_dealloc_dmah">(c.dealloc_dmah);
    fill<"ibv_alloc_dmah">(c.alloc_dmah);
    fill<"ibv_query_port">(b.query_port);
    fill<"ibv_advise_mr">(b.advise_mr);
    fill<"ibv_alloc_null_mr">(b.alloc_null_mr);
    fill<"ibv_read_counters">(b.read_counters);
    fill<"ibv_attach_counters_point_flow">(b.attach_counters_point_flow);
    fill<"ibv_create_counters">(b.create_counters);
    fill<"ibv_destroy_counters">(b.destroy_counters);
    fill<"ibv_reg_dm_mr">(b.reg_dm_mr);
    fill<"ibv_alloc_dm">(b.alloc_dm);
    fill<"ibv_free_dm">(b.free_dm);
    fill<"ibv_modify_flow_action_esp">(b.modify_flow_action_esp);
    fill<"ibv_destroy_flow_action">(b.destroy_flow_action);
    fill<"ibv_create_flow_action_esp">(b.create_flow_action_esp);
    fill<"ibv_modify_qp_rate_limit">(b.modify_qp_rate_limit);
    fill<"ibv_alloc_parent_domain">(b.alloc_parent_domain);
    fill<"ibv_dealloc_td">(b.dealloc_td);
    fill<"ibv_alloc_td">(b.alloc_td);
    fill<"ibv_modify_cq">(b.modify_cq);
    fill<"ibv_post_srq_ops">(b.post_srq_ops);
    fill<"ibv_destroy_rwq_ind_table">(b.destroy_rwq_ind_table);
    fill<"ibv_create_rwq_ind_table">(b.create_rwq_ind_table);
    fill<"ibv_destroy_wq">(b.destroy_wq);
    fill<"ibv_modify_wq">(b.modify_wq);
    fill<"ibv_create_wq">(b.create_wq);
    fill<"ibv_query_rt_values_ex">(b.query_rt_values);
    fill<"ibv_create_cq_ex">(b.create_cq_ex);
    fill<"ibv_query_device_ex">(b.query_device_ex);
    fill<"ibv_destroy_flow">(b.ibv_destroy_flow);
    fill<"ibv_create_flow">(b.ibv_create_flow);
    fill<"ibv_open_qp">(b.open_qp);
    fill<"ibv_create_qp_ex">(b.create_qp_ex);
    fill<"ibv_get_srq_num">(b.get_srq_num);
    fill<"ibv_create_srq_ex">(b.create_srq_ex);
    fill<"ibv_open_xrcd">(b.open_xrcd);
    fill<"ibv_close_xrcd">(b.close_xrcd);
    fill<"ibv_alloc_mw">(ops.alloc_mw);
    fill<"ibv_bind_mw">(ops.bind_mw);
    fill<"ibv_dealloc_mw">(ops.dealloc_mw);
    fill<"ibv_poll_cq">(ops.poll_cq);
    fill<"ibv_req_notify_cq">(ops.req_notify_cq);
    fill<"ibv_post_srq_recv">(ops.post_srq_recv);
    fill<"ibv_post_send">(ops.post_send);
    fill<"ibv_post_recv">(ops.post_recv);
    fill_old(b.ABI_placeholder2, b.ABI_placeholder1);
    fill_old(ops._compat_query_device, ops._compat_query_port, ops._compat_alloc_pd, ops._compat_dealloc_pd,
             ops._compat_reg_mr, ops._compat_rereg_mr, ops._compat_dereg_mr, ops._compat_create_cq,
             ops._compat_cq_event, ops._compat_resize_cq, ops._compat_destroy_cq, ops._compat_create_srq,
             ops._compat_modify_srq, ops._compat_query_srq, ops._compat_destroy_srq, ops._compat_create_qp,
             ops._compat_query_qp, ops._compat_modify_qp, ops._compat_destroy_qp, ops._compat_create_ah,
             ops._compat_destroy_ah, ops._compat_attach_mcast, ops._compat_detach_mcast,
             ops._compat_async_event);
}

}  // namespace verbena::verbs
