// How arguments and results are shown: objects by name, structures by their fields.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <string_view>
#include <type_traits>
#include <vector>

#include "interpose/line.h"
#include "interpose/objects.h"

namespace verbena::interpose {

// A send request of either interface (struct ibv_send_wr, ibv_wr_*).
struct SendRequest {
    std::uint64_t wr_id = 0;
    int opcode = 0;  // enum ibv_wr_opcode
    unsigned flags = 0;
    std::uint32_t immediate = 0;  // network byte order; or the rkey to invalidate
    std::uint64_t remote_address = 0;
    std::uint32_t rkey = 0;
    std::uint64_t compare_add = 0, swap = 0;
    ibv_ah* ah = nullptr;
    std::uint32_t remote_qpn = 0, remote_qkey = 0;
    std::uint32_t remote_srqn = 0;
    ibv_mw* mw = nullptr;
    std::vector<ibv_sge> sges;
    std::uint64_t inline_length = 0;  // of data that ibv_wr_set_inline_data* took
};

SendRequest request_of(const ibv_send_wr& request);

// Structures; nullptr is null.
void show(Line& line, const sockaddr* address);
void show(Line& line, const union ibv_gid* gid);
void show(Line& line, const ibv_send_wr* list);
void show(Line& line, const ibv_recv_wr* list);
void show(Line& line, const SendRequest& request);
void show(Line& line, const ibv_qp_init_attr* attributes);
void show(Line& line, const ibv_qp_init_attr_ex* attributes);
void show(Line& line, const ibv_cq_init_attr_ex* attributes);
void show(Line& line, const ibv_srq_init_attr* attributes);
void show(Line& line, const ibv_srq_init_attr_ex* attributes);
void show(Line& line, const ibv_srq_attr* attributes);
void show(Line& line, const ibv_ah_attr* attributes);
void show(Line& line, const ibv_qp_open_attr* attributes);
void show(Line& line, const ibv_xrcd_init_attr* attributes);
void show(Line& line, const ibv_alloc_dm_attr* attributes);
void show(Line& line, const ibv_mw_bind* bind);
void show(Line& line, const ibv_modify_cq_attr* attributes);
void show(Line& line, const rdma_conn_param* parameters);
void show(Line& line, const rdma_ud_param* parameters);
void show(Line& line, const rdma_addrinfo* info);
void show(Line& line, const rdma_cm_join_mc_attr_ex* attributes);
void show(Line& line, const ibv_wc* completion);
// Those fields that the mask names.
void show(Line& line, const ibv_qp_attr* attributes, int mask);
void show_bytes(Line& line, const void* bytes, std::size_t size);  // hexadecimal; long ones are cut

// What is worth a look in what queries return.
void show(Line& line, const ibv_device_attr* attributes);
void show(Line& line, const ibv_port_attr* attributes);

// Any argument: `name` is that of the parameter, by which numbers are told apart.
void show_number(Line& line, const char* name, std::int64_t value);

template <class T>
concept Shown = requires(Line& line, T value) {
    show(line, value);
};

template <class T>
void show_argument(Line& line, const char* name, T value) {
    if constexpr (std::is_pointer_v<T>) {
        using Pointed = std::remove_cv_t<std::remove_pointer_t<T>>;
        if constexpr (std::is_same_v<Pointed, char>) {
            if (value)
                line.text(value);
            else
                line.null();
        } else if constexpr (std::is_same_v<Pointed, ibv_device>) {
            if (value)
                line.text(value->name);
            else
                line.null();
        } else if constexpr (kKind<Pointed> != Kind::count) {
            show_object(line, value);
        } else if constexpr (Shown<T>) {
            show(line, value);
        } else if (value) {
            line.hex(reinterpret_cast<std::uintptr_t>(value));
        } else {
            line.null();
        }
    } else if constexpr (std::is_enum_v<T>) {
        show_number(line, name, static_cast<std::int64_t>(static_cast<int>(value)));
    } else {
        show_number(line, name, static_cast<std::int64_t>(value));
    }
}

}  // namespace verbena::interpose
