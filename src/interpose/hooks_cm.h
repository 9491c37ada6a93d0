// The calls of librdmacm, for hooks.h.
#pragma once

#include "interpose/call.h"
#include "interpose/happenings.h"
#include "interpose/hooks.h"
#include "interpose/strict.h"

namespace verbena::interpose {

inline void new_id(rdma_cm_id* id) {
    add_object(Kind::id, id);
    strict_mode::made(Kind::id, id, 0);
}

template <>
struct Hook<calls::rdma_destroy_id> : PlainHook {
    static void before(Call&, rdma_cm_id* id) { strict_mode::destroys(id); }
};
template <>
struct Hook<calls::rdma_destroy_ep> : PlainHook {
    static void before(Call&, rdma_cm_id* id) { strict_mode::destroys(id); }
};
template <>
struct Hook<calls::rdma_create_id> : PlainHook {
    static void result(Call& call, int, rdma_event_channel*, rdma_cm_id** id, void*, rdma_port_space) {
        if (!call.error) new_id(*id);
    }
    static void out(Line& line, int, rdma_event_channel*, rdma_cm_id** id, void*, rdma_port_space) {
        show_object(line.key("id"), *id);
    }
};
template <>
struct Hook<calls::rdma_create_ep> : PlainHook {
    static void result(Call& call, int, rdma_cm_id** id, rdma_addrinfo*, ibv_pd*, ibv_qp_init_attr*) {
        if (!call.error) new_id(*id);
    }
    static void out(Line& line, int, rdma_cm_id** id, rdma_addrinfo*, ibv_pd*, ibv_qp_init_attr*) {
        show_object(line.key("id"), *id);
    }
    // The first address of the list is used.
    static void show(Line& line, rdma_cm_id**, rdma_addrinfo* info, ibv_pd* pd,
                     ibv_qp_init_attr* attributes) {
        interpose::show(line.key("res"), info);
        show_object(line.key("pd"), pd);
        interpose::show(line.key("qp_init_attr"), attributes);
    }
};
template <>
struct Hook<calls::rdma_get_request> : PlainHook {
    static void result(Call& call, int, rdma_cm_id*, rdma_cm_id** id) {
        if (!call.error) new_id(*id);
    }
    static void out(Line& line, int, rdma_cm_id*, rdma_cm_id** id) { show_object(line.key("id"), *id); }
};
struct CreateQueuePairHook : PlainHook {
    template <class... Arguments>
    static void out(Line& line, int, rdma_cm_id* id, Arguments...) {
        if (id->qp) show_object(line.key("qp"), id->qp);
    }
};
template <>
struct Hook<calls::rdma_create_qp> : CreateQueuePairHook {};
template <>
struct Hook<calls::rdma_create_qp_ex> : CreateQueuePairHook {};
struct RejectHook : PlainHook {
    static void show(Line& line, rdma_cm_id* id, const void* data, std::uint8_t size) {
        show_object(line.key("id"), id);
        show_bytes(line.key("private_data"), data, data ? size : 0);
    }
};
template <>
struct Hook<calls::rdma_reject> : RejectHook {};
template <>
struct Hook<calls::rdma_reject_ece> : RejectHook {};
template <>
struct Hook<calls::rdma_get_cm_event> : PlainHook {
    static void before(Call& call, rdma_event_channel* channel, rdma_cm_event**) {
        if (channel) blocks_on(call, channel->fd);
    }
    static void result(Call& call, int, rdma_event_channel*, rdma_cm_event** event) {
        if (!call.error && (*event)->event == RDMA_CM_EVENT_CONNECT_REQUEST) new_id((*event)->id);
    }
    static void out(Line& line, int, rdma_event_channel*, rdma_cm_event** event) {
        show_cm_event(line, **event);
    }
    static void after(Call& call, int, rdma_event_channel*, rdma_cm_event** event) {
        if (call.error) return;
        cm_event_happened(**event);
        strict_mode::cm_event_fetched(*event);
    }
};
template <>
struct Hook<calls::rdma_ack_cm_event> : PlainHook {
    static bool is_done(rdma_cm_event* event) { return event && !strict_mode::cm_event_acknowledged(event); }
    static void show(Line& line, rdma_cm_event* event) {
        if (event) show_cm_event(line, *event);
    }
};
template <>
struct Hook<calls::rdma_getaddrinfo> : PlainHook {
    static void out(Line& line, int, const char*, const char*, const rdma_addrinfo*, rdma_addrinfo** info) {
        interpose::show(line.key("res"), *info);
    }
};
template <>
struct Hook<calls::rdma_init_qp_attr> : PlainHook {
    static void out(Line& line, int, rdma_cm_id*, ibv_qp_attr* attributes, int* mask) {
        interpose::show(line.key("qp_attr"), attributes, *mask);
    }
};

}  // namespace verbena::interpose
