// What is particular about single calls: objects that they hand out, results worth a look, events that
// follow.
#pragma once

#include "interpose/call.h"
#include "interpose/happenings.h"
#include "interpose/originals.h"
#include "interpose/strict.h"

namespace verbena::interpose {

// Most calls have nothing particular.
template <class Which>
struct Hook : PlainHook {};

// --- contexts and queries

template <>
struct Hook<calls::ibv_open_device> : PlainHook {
    static void result(Call&, ibv_context* made, ibv_device*) { watch_context(made); }
};
template <>
struct Hook<calls::ibv_import_device> : PlainHook {
    static void result(Call&, ibv_context* made, int) { watch_context(made); }
};
template <>
struct Hook<calls::ibv_get_device_list> : PlainHook {
    static void out(Line& line, ibv_device** list, int*) {
        line.key("devices").open('[');
        for (; *list; list++) line.text((*list)->name);
        line.close(']');
    }
};
template <>
struct Hook<calls::ibv_query_device> : PlainHook {
    static void out(Line& line, int, ibv_context*, ibv_device_attr* attributes) {
        show(line.key("device_attr"), attributes);
    }
};
template <>
struct Hook<calls::ibv_query_device_ex> : PlainHook {
    static void out(Line& line, int, ibv_context*, const ibv_query_device_ex_input*,
                    ibv_device_attr_ex* attributes, std::size_t) {
        show(line.key("device_attr"), &attributes->orig_attr);
    }
};
template <>
struct Hook<calls::ibv_query_port_ex> : PlainHook {
    static void out(Line& line, int, ibv_context*, std::uint8_t, ibv_port_attr* attributes,
                    std::size_t size) {
        if (size >= sizeof *attributes) show(line.key("port_attr"), attributes);
    }
};
template <>
struct Hook<calls::ibv_query_gid> : PlainHook {
    static void out(Line& line, int, ibv_context*, std::uint8_t, int, ibv_gid* gid) {
        show(line.key("gid"), gid);
    }
};
template <>
struct Hook<calls::_ibv_query_gid_ex> : PlainHook {
    static void out(Line& line, int, ibv_context*, std::uint32_t, std::uint32_t, ibv_gid_entry* entry,
                    std::uint32_t, std::size_t) {
        show(line.key("gid"), &entry->gid);
        line.key("gid_type").unsigned_number(entry->gid_type);
        line.key("ndev_ifindex").unsigned_number(entry->ndev_ifindex);
    }
};
template <>
struct Hook<calls::ibv_get_async_event> : PlainHook {
    static void before(Call& call, ibv_context* context, ibv_async_event*) {
        blocks_on(call, context->async_fd);
    }
    static void after(Call& call, int, ibv_context*, ibv_async_event* event) {
        if (call.error) return;
        async_event_happened(*event);
        strict_mode::async_event_fetched(*event);
    }
};
template <>
struct Hook<calls::ibv_ack_async_event> : PlainHook {
    static void show(Line& line, ibv_async_event* event) { show_async_event(line, *event); }
    static bool is_done(ibv_async_event* event) { return !strict_mode::async_event_acknowledged(*event); }
};

// --- memory

struct RegionHook : PlainHook {
    template <class... Arguments>
    static void out(Line& line, ibv_mr* region, Arguments...) {
        line.key("lkey").hex(region->lkey);
        line.key("rkey").hex(region->rkey);
    }
};
template <>
struct Hook<calls::ibv_reg_mr> : RegionHook {
    static void result(Call&, ibv_mr* region, ibv_pd*, void* address, std::size_t, int access) {
        strict_mode::region_made(
            region, access & IBV_ACCESS_ZERO_BASED ? 0 : reinterpret_cast<std::uintptr_t>(address), access);
    }
};
struct RegionAtHook : RegionHook {
    template <class Access>
    static void result(Call&, ibv_mr* region, ibv_pd*, void*, std::size_t, std::uint64_t iova,
                       Access access) {
        strict_mode::region_made(region, iova, static_cast<int>(access));
    }
};
template <>
struct Hook<calls::ibv_reg_mr_iova> : RegionAtHook {};
template <>
struct Hook<calls::ibv_reg_mr_iova2> : RegionAtHook {};
template <>
struct Hook<calls::ibv_rereg_mr> : PlainHook {
    static void before(Call& call, ibv_mr* region, int, ibv_pd*, void*, std::size_t, int) {
        call.note = strict_mode::region_leaves(region, "ibv_rereg_mr");
    }
    static void result(Call& call, int, ibv_mr* region, int flags, ibv_pd*, void*, std::size_t, int access) {
        strict_mode::region_changed(call.note, !call.error, region, flags, access);
    }
};
template <>
struct Hook<calls::ibv_dereg_mr> : PlainHook {
    static void before(Call& call, ibv_mr* region) {
        call.note = strict_mode::region_leaves(region, "ibv_dereg_mr");
    }
    static void result(Call& call, int, ibv_mr*) { strict_mode::region_left(call.note, !call.error); }
};
struct RegionElsewhereHook : RegionHook {
    template <class... Arguments>
    static void result(Call&, ibv_mr* region, Arguments...) {
        strict_mode::region_made_elsewhere(region);
    }
};
template <>
struct Hook<calls::ibv_reg_dmabuf_mr> : RegionElsewhereHook {};
template <>
struct Hook<calls::ibv_reg_dm_mr> : RegionElsewhereHook {};
template <>
struct Hook<calls::ibv_alloc_null_mr> : RegionElsewhereHook {};
template <>
struct Hook<calls::ibv_import_mr> : RegionHook {
    static void result(Call&, ibv_mr* region, ibv_pd*, std::uint32_t) {
        strict_mode::region_imported(region);
    }
};
template <>
struct Hook<calls::ibv_alloc_mw> : PlainHook {
    static void out(Line& line, ibv_mw* window, ibv_pd*, ibv_mw_type) { line.key("rkey").hex(window->rkey); }
};

// --- completions

template <>
struct Hook<calls::ibv_create_cq> : PlainHook {
    static void result(Call&, ibv_cq* cq, ibv_context*, int, void*, ibv_comp_channel*, int) {
        strict_mode::completion_queue_made(cq);
    }
    static void out(Line& line, ibv_cq* cq, ibv_context*, int, void*, ibv_comp_channel*, int) {
        line.key("cqe").number(cq->cqe);
    }
};
template <>
struct Hook<calls::ibv_create_cq_ex> : PlainHook {
    static void result(Call&, ibv_cq_ex* cq, ibv_context*, ibv_cq_init_attr_ex* attributes) {
        watch_completion_queue(cq);
        if (cq && !(attributes->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS &&
                    attributes->flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN))
            strict_mode::completion_queue_made(ibv_cq_ex_to_cq(cq));
    }
    static void out(Line& line, ibv_cq_ex* cq, ibv_context*, ibv_cq_init_attr_ex*) {
        line.key("cqe").number(cq->cqe);
    }
};
template <>
struct Hook<calls::ibv_resize_cq> : PlainHook {
    static void after(Call& call, int, ibv_cq* cq, int) {
        if (!call.error) strict_mode::completion_queue_made(cq);
    }
};
template <>
struct Hook<calls::ibv_destroy_cq> : PlainHook {
    static void before(Call&, ibv_cq* cq) {
        strict_mode::destroys(cq);
        strict_mode::destroys(Kind::cq, cq);
    }
};
template <>
struct Hook<calls::ibv_destroy_srq> : PlainHook {
    static void before(Call&, ibv_srq* srq) { strict_mode::destroys(Kind::srq, srq); }
};
template <>
struct Hook<calls::ibv_ack_cq_events> : PlainHook {
    static bool is_done(ibv_cq* cq, unsigned count) {
        return !strict_mode::completion_events_acknowledged(cq, count);
    }
};
template <>
struct Hook<calls::ibv_get_cq_event> : PlainHook {
    static void result(Call& call, int, ibv_comp_channel*, ibv_cq** cq, void**) {
        if (!call.error) strict_mode::completion_event_fetched(*cq);
    }
    static void before(Call& call, ibv_comp_channel* channel, ibv_cq**, void**) {
        blocks_on(call, channel->fd);
    }
    static void out(Line& line, int, ibv_comp_channel*, ibv_cq** cq, void**) {
        show_object(line.key("cq"), *cq);
    }
};
template <>
struct Hook<calls::ibv_poll_cq> : PlainHook {
    static void result(Call& call, int count, ibv_cq*, int, ibv_wc*) {
        if (count == 0) call.told = false;
    }
    static void before(Call& call, ibv_cq* cq, int most, ibv_wc*) {
        call.note = strict_mode::poll_begins(cq, most);
    }
    static void after(Call& call, int count, ibv_cq* cq, int most, ibv_wc* completions) {
        for (int i = 0; i < count; i++) {
            completed(cq, completions[i]);
            strict_mode::completed(cq, completions[i], call.note);
            strict_mode::poison(completions[i]);
        }
        strict_mode::poll_ends(cq, most);
    }
};
struct PollHook : PlainHook {
    template <class... Arguments>
    static void before(Call& call, ibv_cq_ex* cq, Arguments...) {
        call.note = strict_mode::poll_begins(ibv_cq_ex_to_cq(cq), 1);
    }
    template <class... Arguments>
    static void result(Call& call, int, Arguments...) {
        if (call.error == ENOENT) call.told = false;  // nothing there
    }
    template <class... Arguments>
    static void after(Call& call, int, ibv_cq_ex* cq, Arguments...) {
        if (!call.error) completed(cq, pointers_of(cq).functions, call.note);
        strict_mode::poll_ends(ibv_cq_ex_to_cq(cq), 1);
    }
};
template <>
struct Hook<calls::ibv_start_poll> : PollHook {};
template <>
struct Hook<calls::ibv_next_poll> : PollHook {};

// --- queue pairs

struct NewQueuePairHook : PlainHook {
    template <class... Arguments>
    static void after(Call&, ibv_qp* qp, Arguments...) {
        if (qp) queue_pair_made(*qp);
    }
};
template <>
struct Hook<calls::ibv_create_qp> : NewQueuePairHook {
    static void result(Call&, ibv_qp* qp, ibv_pd*, ibv_qp_init_attr* made) {
        strict_mode::queue_pair_made(qp, made ? made->cap.max_send_wr : 0, made && made->sq_sig_all);
    }
};
template <>
struct Hook<calls::ibv_open_qp> : NewQueuePairHook {};
template <>
struct Hook<calls::ibv_create_qp_ex> : NewQueuePairHook {
    static void result(Call&, ibv_qp* qp, ibv_context*, ibv_qp_init_attr_ex* attributes) {
        if (qp && attributes->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
            watch_queue_pair(extended_form(qp));
        strict_mode::queue_pair_made(qp, attributes->cap.max_send_wr, attributes->sq_sig_all);
    }
};
template <>
struct Hook<calls::ibv_modify_qp> : PlainHook {
    static void show(Line& line, ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
        show_object(line.key("qp"), qp);
        interpose::show(line.key("attr"), attributes, mask);
        show_number(line.key("attr_mask"), "attr_mask", mask);
    }
    static void before(Call& call, ibv_qp* qp, ibv_qp_attr*, int) { call.note = qp ? qp->state : 0; }
    static void after(Call& call, int, ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
        if (call.error) return;
        queue_pair_modified(*qp, static_cast<int>(call.note), *attributes, mask);
        if (mask & IBV_QP_STATE) strict_mode::queue_pair_modified(qp, attributes->qp_state);
    }
};
template <>
struct Hook<calls::ibv_query_qp> : PlainHook {
    static void result(Call& call, int, ibv_qp* qp, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr*) {
        if (!call.error && mask & IBV_QP_STATE && attributes->qp_state == IBV_QPS_ERR)
            strict_mode::queue_pair_modified(qp, IBV_QPS_ERR);  // without having been told to
    }
    static void out(Line& line, int, ibv_qp*, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr*) {
        interpose::show(line.key("attr"), attributes, mask | IBV_QP_STATE);
    }
};
template <>
struct Hook<calls::ibv_destroy_qp> : PlainHook {
    static void before(Call& call, ibv_qp* qp) {
        strict_mode::destroys(Kind::qp, qp);
        if (qp) call.note = static_cast<std::uint64_t>(qp->state) << 32 | qp->qp_num;
    }
    static void after(Call& call, int, ibv_qp*) {
        if (!call.error)
            queue_pair_gone(static_cast<std::uint32_t>(call.note), static_cast<int>(call.note >> 32));
    }
};
template <>
struct Hook<calls::ibv_post_send> : PlainHook {
    static void refused(ibv_qp*, ibv_send_wr* list, ibv_send_wr** bad) {
        if (bad) *bad = list;
    }
    static void before(Call& call, ibv_qp* qp, ibv_send_wr* list, ibv_send_wr**) {
        call.note = strict_mode::post_send(qp, list);
    }
    static void result(Call& call, int, ibv_qp* qp, ibv_send_wr* list, ibv_send_wr** bad) {
        strict_mode::posted_send(qp, call.note, list, call.error && bad ? *bad : nullptr);
    }
};
template <>
struct Hook<calls::ibv_post_recv> : PlainHook {
    static void refused(ibv_qp*, ibv_recv_wr* list, ibv_recv_wr** bad) {
        if (bad) *bad = list;
    }
    static void before(Call& call, ibv_qp* qp, ibv_recv_wr* list, ibv_recv_wr**) {
        call.note = strict_mode::post_receive(qp, qp->context, list);
    }
    static void result(Call& call, int, ibv_qp* qp, ibv_recv_wr* list, ibv_recv_wr** bad) {
        strict_mode::posted_receive(qp, call.note, list, call.error && bad ? *bad : nullptr);
    }
};
template <>
struct Hook<calls::ibv_post_srq_recv> : PlainHook {
    static void refused(ibv_srq*, ibv_recv_wr* list, ibv_recv_wr** bad) {
        if (bad) *bad = list;
    }
    static void before(Call& call, ibv_srq* srq, ibv_recv_wr* list, ibv_recv_wr**) {
        call.note = strict_mode::post_receive(srq, srq->context, list);
    }
    static void result(Call& call, int, ibv_srq* srq, ibv_recv_wr* list, ibv_recv_wr** bad) {
        strict_mode::posted_receive(srq, call.note, list, call.error && bad ? *bad : nullptr);
    }
};
template <>
struct Hook<calls::ibv_wr_complete> : PlainHook {
    static void refused(ibv_qp_ex* qp) { pointers_of(qp).functions.wr_abort(qp); }
    static void before(Call& call, ibv_qp_ex* qp) {
        call.note = strict_mode::post_send(&qp->qp_base, pointers_of(qp).requests);
    }
    static void result(Call& call, int, ibv_qp_ex* qp) {
        strict_mode::posted_send(&qp->qp_base, call.note, !call.error);
    }
    static void show(Line& line, ibv_qp_ex* qp) {
        show_object(line.key("qp"), qp);
        line.key("wr").open('[');
        for (const SendRequest& request : pointers_of(qp).requests) interpose::show(line, request);
        line.close(']');
    }
};
template <>
struct Hook<calls::ibv_get_srq_num> : PlainHook {
    static void out(Line& line, int, ibv_srq*, std::uint32_t* number) {
        line.key("srq_num").unsigned_number(*number);
    }
};

}  // namespace verbena::interpose

#include "interpose/hooks_cm.h"  // so that every caller sees all of them
