// The calls that have a Fault (base/call_fault.h); a test compares this list with the sources.

#include <algorithm>

#include "faults/words.h"

namespace verbena::faults {
namespace {

// clang-format off
constexpr std::string_view kCalls[] = {
    "_ibv_query_gid_ex",
    "ibv_advise_mr",
    "ibv_alloc_buf",
    "ibv_alloc_dm",
    "ibv_alloc_mw",
    "ibv_alloc_null_mr",
    "ibv_alloc_parent_domain",
    "ibv_alloc_pd",
    "ibv_alloc_td",
    "ibv_attach_mcast",
    "ibv_bind_mw",
    "ibv_close_device",
    "ibv_close_xrcd",
    "ibv_create_ah",
    "ibv_create_ah_from_wc",
    "ibv_create_comp_channel",
    "ibv_create_cq",
    "ibv_create_cq_ex",
    "ibv_create_qp",
    "ibv_create_qp_ex",
    "ibv_create_srq",
    "ibv_create_srq_ex",
    "ibv_dealloc_mw",
    "ibv_dealloc_pd",
    "ibv_dealloc_td",
    "ibv_dereg_mr",
    "ibv_destroy_ah",
    "ibv_destroy_comp_channel",
    "ibv_destroy_cq",
    "ibv_destroy_qp",
    "ibv_destroy_srq",
    "ibv_detach_mcast",
    "ibv_export_buf_dmabuf_fd",
    "ibv_free_dm",
    "ibv_get_async_event",
    "ibv_get_cq_event",
    "ibv_get_device_list",
    "ibv_get_pkey_index",
    "ibv_get_srq_num",
    "ibv_import_device",
    "ibv_import_dm",
    "ibv_import_mr",
    "ibv_import_pd",
    "ibv_init_ah_from_wc",
    "ibv_memcpy_from_dm",
    "ibv_memcpy_to_dm",
    "ibv_modify_cq",
    "ibv_modify_qp",
    "ibv_modify_qp_rate_limit",
    "ibv_modify_srq",
    "ibv_next_poll",
    "ibv_open_device",
    "ibv_open_qp",
    "ibv_open_xrcd",
    "ibv_poll_cq",
    "ibv_post_recv",
    "ibv_post_send",
    "ibv_post_srq_recv",
    "ibv_query_device",
    "ibv_query_device_ex",
    "ibv_query_ece",
    "ibv_query_gid",
    "ibv_query_gid_ex",
    "ibv_query_gid_type",
    "ibv_query_pkey",
    "ibv_query_port",
    "ibv_query_port_speed",
    "ibv_query_qp",
    "ibv_query_rt_values_ex",
    "ibv_query_srq",
    "ibv_reg_buf_mr",
    "ibv_reg_dm_mr",
    "ibv_reg_dmabuf_mr",
    "ibv_reg_mr",
    "ibv_reg_mr_ex",
    "ibv_reg_mr_iova",
    "ibv_reg_mr_iova2",
    "ibv_req_notify_cq",
    "ibv_rereg_mr",
    "ibv_resize_cq",
    "ibv_set_ece",
    "ibv_start_poll",
    "ibv_wr_complete",
    "raccept",
    "rbind",
    "rclose",
    "rconnect",
    "rdma_accept",
    "rdma_ack_cm_event",
    "rdma_bind_addr",
    "rdma_connect",
    "rdma_create_ep",
    "rdma_create_event_channel",
    "rdma_create_id",
    "rdma_create_qp",
    "rdma_create_qp_ex",
    "rdma_create_srq",
    "rdma_create_srq_ex",
    "rdma_destroy_id",
    "rdma_disconnect",
    "rdma_establish",
    "rdma_get_cm_event",
    "rdma_get_devices",
    "rdma_get_remote_ece",
    "rdma_get_request",
    "rdma_getaddrinfo",
    "rdma_init_qp_attr",
    "rdma_join_multicast",
    "rdma_join_multicast_ex",
    "rdma_leave_multicast",
    "rdma_listen",
    "rdma_migrate_id",
    "rdma_notify",
    "rdma_query_addrinfo",
    "rdma_reject",
    "rdma_reject_ece",
    "rdma_resolve_addr",
    "rdma_resolve_addrinfo",
    "rdma_resolve_route",
    "rdma_set_local_ece",
    "rdma_set_option",
    "rdma_write_cm_event",
    "repoll_create",
    "repoll_ctl",
    "repoll_wait",
    "rfcntl",
    "rgetpeername",
    "rgetsockname",
    "rgetsockopt",
    "riomap",
    "riounmap",
    "riowrite",
    "rlisten",
    "rpoll",
    "rread",
    "rreadv",
    "rrecv",
    "rrecvfrom",
    "rrecvmsg",
    "rselect",
    "rsend",
    "rsendmsg",
    "rsendto",
    "rsetsockopt",
    "rshutdown",
    "rsocket",
    "rwrite",
    "rwritev",
};
// clang-format on
static_assert(std::is_sorted(std::begin(kCalls), std::end(kCalls)));

// What the headers define in place, and which call of the library is behind it.
struct Inline {
    std::string_view begins, behind;
};
constexpr Inline kInline[] = {
    {"rdma_post_send", "ibv_post_send"},   {"rdma_post_write", "ibv_post_send"},
    {"rdma_post_read", "ibv_post_send"},   {"rdma_post_ud_send", "ibv_post_send"},
    {"rdma_post_recv", "ibv_post_recv"},   {"rdma_reg_", "ibv_reg_mr"},
    {"rdma_dereg_mr", "ibv_dereg_mr"},     {"rdma_get_send_comp", "ibv_poll_cq"},
    {"rdma_get_recv_comp", "ibv_poll_cq"}, {"ibv_query_gid_ex", "_ibv_query_gid_ex"},
};

}  // namespace

std::span<const std::string_view> failing_calls() { return kCalls; }

std::string why_not_failing(std::string_view call) {
    if (std::binary_search(std::begin(kCalls), std::end(kCalls), call)) return {};
    for (const Inline& known : kInline)
        if (call.substr(0, known.begins.size()) == known.begins)
            return "'" + std::string(call) + "' is a function of the headers; name the call behind it, " +
                   std::string(known.behind);
    const bool ours = call.substr(0, 4) == "ibv_" || call.substr(0, 5) == "rdma_";
    return "'" + std::string(call) + "' is " +
           (ours ? "not among the calls that can fail (verbena fault --calls lists them)"
                 : "no verb, no rdma_* call and no rsocket call");
}

}  // namespace verbena::faults
