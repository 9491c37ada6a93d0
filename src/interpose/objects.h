// The objects that the program has: short names that stay the same ("cq 2", "qp 0x11"), for people.
//
// An object is known from the call that made it to the one that destroyed it; a pointer to anything else is
// shown as the number that it is, and never followed.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>

#include "interpose/line.h"

namespace verbena::interpose {

enum class Kind : std::uint8_t {
    context,
    pd,
    mr,
    mw,
    cq,
    comp_channel,
    qp,
    srq,
    ah,
    xrcd,
    dm,
    td,
    wq,
    flow,
    counters,
    table,
    action,
    event_channel,
    id,
    count
};

// clang-format off
template <class T> inline constexpr Kind kKind = Kind::count;  // of no object
template <> inline constexpr Kind kKind<ibv_context> = Kind::context;
template <> inline constexpr Kind kKind<ibv_pd> = Kind::pd;
template <> inline constexpr Kind kKind<ibv_mr> = Kind::mr;
template <> inline constexpr Kind kKind<ibv_mw> = Kind::mw;
template <> inline constexpr Kind kKind<ibv_cq> = Kind::cq;
template <> inline constexpr Kind kKind<ibv_cq_ex> = Kind::cq;
template <> inline constexpr Kind kKind<ibv_comp_channel> = Kind::comp_channel;
template <> inline constexpr Kind kKind<ibv_qp> = Kind::qp;
template <> inline constexpr Kind kKind<ibv_qp_ex> = Kind::qp;
template <> inline constexpr Kind kKind<ibv_srq> = Kind::srq;
template <> inline constexpr Kind kKind<ibv_ah> = Kind::ah;
template <> inline constexpr Kind kKind<ibv_xrcd> = Kind::xrcd;
template <> inline constexpr Kind kKind<ibv_dm> = Kind::dm;
template <> inline constexpr Kind kKind<ibv_td> = Kind::td;
template <> inline constexpr Kind kKind<ibv_wq> = Kind::wq;
template <> inline constexpr Kind kKind<ibv_flow> = Kind::flow;
template <> inline constexpr Kind kKind<ibv_counters> = Kind::counters;
template <> inline constexpr Kind kKind<ibv_rwq_ind_table> = Kind::table;
template <> inline constexpr Kind kKind<ibv_flow_action> = Kind::action;
template <> inline constexpr Kind kKind<rdma_event_channel> = Kind::event_channel;
template <> inline constexpr Kind kKind<rdma_cm_id> = Kind::id;
// clang-format on

const char* kind_name(Kind kind);

// `number` is the QPN of a queue pair; others are counted.
void add_object(Kind kind, const void* object, std::uint32_t number = 0);
struct Known {
    Kind kind = Kind::count;
    std::uint32_t number = 0;
};
// Forgets the object and returns what it was, for put_back() if it does not go after all.
Known take_object(const void* object);
void put_back(const void* object, Known known);
bool knows_object(Kind kind, const void* object);

void show_object(Line& line, Kind kind, const void* object);

template <class T>
void show_object(Line& line, const T* object) {
    static_assert(kKind<T> != Kind::count);
    show_object(line, kKind<T>, object);
}

}  // namespace verbena::interpose
