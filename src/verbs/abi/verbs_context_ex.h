// Layouts of releases after v44, for objects that the library allocates and programs look into through header
// inlines. Each is the v44 structure with fields added where the ABI lets it grow, so programs of either age
// find theirs.
//
// verbs_context grows at its front: a program holds a pointer to the ibv_context at its end, and every slot
// has for ever the same distance before that pointer. `sz`, 8 bytes before it, tells how far up a program may
// look: set base.sz to sizeof(VerbsContextEx). Every slot should be filled, with a function that answers
// EOPNOTSUPP if need be; close_xrcd is called without a check.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "verbs/abi/newer.h"

namespace verbena::abi {

struct VerbsContextEx {
    // v64
    void (*free_buf)(struct ibv_buf* buffer);
    void* (*alloc_buf)(struct ibv_pd* pd, std::size_t size, struct ibv_buf** buffer);
    // v62
    int (*dm_export_dmabuf_fd)(struct ibv_dm* dm);
    // v59
    struct ibv_mr* (*reg_mr_ex)(struct ibv_pd* pd, struct ibv_mr_init_attr* attributes);
    int (*dealloc_dmah)(struct ibv_dmah* handle);
    struct ibv_dmah* (*alloc_dmah)(struct ibv_context* context, struct ibv_dmah_init_attr* attributes);
    // v44 and older; its last member is the ibv_context.
    struct verbs_context base;
};

// The object behind a context that this library made.
inline VerbsContextEx* context_ex(struct ibv_context* context) {
    return reinterpret_cast<VerbsContextEx*>(reinterpret_cast<char*>(context) -
                                             offsetof(VerbsContextEx, base.context));
}

// ibv_qp_ex grows at its end (v45).
struct QpEx {
    struct ibv_qp_ex base;
    void (*wr_flush)(struct ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_address,
                     std::size_t length, std::uint8_t type, std::uint8_t level);
};

// ibv_port_attr grows at its end (v49) and travels with its size: fill a PortAttr and copy min(size, sizeof)
// bytes.
struct PortAttr {
    struct ibv_port_attr base;
    std::uint32_t active_speed_ex;  // enum ibv_port_speed's bits beyond active_speed's eight
};

// What the exported ibv_query_port@@IBVERBS_1.1 may write, however old the program: up to link_layer and one
// byte.
inline constexpr std::size_t kOldestPortAttrSize = 48;

// The distances before the ibv_context are the ABI (LP64); measured with the headers of v44 and of the
// development head.
#if defined(__LP64__)
static_assert(sizeof(struct ibv_context) == 328);
static_assert(sizeof(struct verbs_context) == 648);
static_assert(sizeof(VerbsContextEx) == 696);

constexpr std::size_t distance(std::size_t offset) { return offsetof(VerbsContextEx, base.context) - offset; }
static_assert(distance(offsetof(VerbsContextEx, free_buf)) == 368);
static_assert(distance(offsetof(VerbsContextEx, alloc_buf)) == 360);
static_assert(distance(offsetof(VerbsContextEx, dm_export_dmabuf_fd)) == 352);
static_assert(distance(offsetof(VerbsContextEx, reg_mr_ex)) == 344);
static_assert(distance(offsetof(VerbsContextEx, dealloc_dmah)) == 336);
static_assert(distance(offsetof(VerbsContextEx, alloc_dmah)) == 328);
static_assert(distance(offsetof(VerbsContextEx, base.query_port)) == 320);
static_assert(distance(offsetof(VerbsContextEx, base.advise_mr)) == 312);
static_assert(distance(offsetof(VerbsContextEx, base.alloc_null_mr)) == 304);
static_assert(distance(offsetof(VerbsContextEx, base.read_counters)) == 296);
static_assert(distance(offsetof(VerbsContextEx, base.attach_counters_point_flow)) == 288);
static_assert(distance(offsetof(VerbsContextEx, base.create_counters)) == 280);
static_assert(distance(offsetof(VerbsContextEx, base.destroy_counters)) == 272);
static_assert(distance(offsetof(VerbsContextEx, base.reg_dm_mr)) == 264);
static_assert(distance(offsetof(VerbsContextEx, base.alloc_dm)) == 256);
static_assert(distance(offsetof(VerbsContextEx, base.free_dm)) == 248);
static_assert(distance(offsetof(VerbsContextEx, base.modify_flow_action_esp)) == 240);
static_assert(distance(offsetof(VerbsContextEx, base.destroy_flow_action)) == 232);
static_assert(distance(offsetof(VerbsContextEx, base.create_flow_action_esp)) == 224);
static_assert(distance(offsetof(VerbsContextEx, base.modify_qp_rate_limit)) == 216);
static_assert(distance(offsetof(VerbsContextEx, base.alloc_parent_domain)) == 208);
static_assert(distance(offsetof(VerbsContextEx, base.dealloc_td)) == 200);
static_assert(distance(offsetof(VerbsContextEx, base.alloc_td)) == 192);
static_assert(distance(offsetof(VerbsContextEx, base.modify_cq)) == 184);
static_assert(distance(offsetof(VerbsContextEx, base.post_srq_ops)) == 176);
static_assert(distance(offsetof(VerbsContextEx, base.destroy_rwq_ind_table)) == 168);
static_assert(distance(offsetof(VerbsContextEx, base.create_rwq_ind_table)) == 160);
static_assert(distance(offsetof(VerbsContextEx, base.destroy_wq)) == 152);
static_assert(distance(offsetof(VerbsContextEx, base.modify_wq)) == 144);
static_assert(distance(offsetof(VerbsContextEx, base.create_wq)) == 136);
static_assert(distance(offsetof(VerbsContextEx, base.query_rt_values)) == 128);
static_assert(distance(offsetof(VerbsContextEx, base.create_cq_ex)) == 120);
static_assert(distance(offsetof(VerbsContextEx, base.priv)) == 112);
static_assert(distance(offsetof(VerbsContextEx, base.query_device_ex)) == 104);
static_assert(distance(offsetof(VerbsContextEx, base.ibv_destroy_flow)) == 96);
static_assert(distance(offsetof(VerbsContextEx, base.ABI_placeholder2)) == 88);
static_assert(distance(offsetof(VerbsContextEx, base.ibv_create_flow)) == 80);
static_assert(distance(offsetof(VerbsContextEx, base.ABI_placeholder1)) == 72);
static_assert(distance(offsetof(VerbsContextEx, base.open_qp)) == 64);
static_assert(distance(offsetof(VerbsContextEx, base.create_qp_ex)) == 56);
static_assert(distance(offsetof(VerbsContextEx, base.get_srq_num)) == 48);
static_assert(distance(offsetof(VerbsContextEx, base.create_srq_ex)) == 40);
static_assert(distance(offsetof(VerbsContextEx, base.open_xrcd)) == 32);
static_assert(distance(offsetof(VerbsContextEx, base.close_xrcd)) == 24);
static_assert(distance(offsetof(VerbsContextEx, base._ABI_placeholder3)) == 16);
static_assert(distance(offsetof(VerbsContextEx, base.sz)) == 8);
static_assert(sizeof(struct ibv_qp_ex) == 352);
static_assert(offsetof(QpEx, wr_flush) == 352 && sizeof(QpEx) == 360);
static_assert(sizeof(struct ibv_port_attr) == 52);
static_assert(offsetof(PortAttr, active_speed_ex) == 52 && sizeof(PortAttr) == 56);
static_assert(offsetof(struct ibv_port_attr, link_layer) + 2 == kOldestPortAttrSize);

// ibv_context and ibv_device, as far as programs read them.
static_assert(offsetof(struct ibv_context, ops) == 8 && offsetof(struct ibv_context, cmd_fd) == 264);
static_assert(offsetof(struct ibv_context, async_fd) == 268 &&
              offsetof(struct ibv_context, num_comp_vectors) == 272);
static_assert(offsetof(struct ibv_context, mutex) == 280 && offsetof(struct ibv_context, abi_compat) == 320);
static_assert(sizeof(struct ibv_device) == 664);
#endif

}  // namespace verbena::abi
