// Functions of libibverbs releases after v44, whose headers this is compiled with: IBVERBS_1.15 (v59), 1.16
// (v62), 1.17 (v64), 1.18 (the development head of August 2026). Structures stay incomplete until something
// looks inside. Included by public.h only.
#pragma once

#include <infiniband/verbs.h>

struct ibv_buf;
struct ibv_dmah;
struct ibv_dmah_init_attr;

struct ibv_comp_cntr_caps {
    uint64_t max_value;
    uint32_t max_counters;
    uint32_t supported_qp_attach_ops;  // bits, as op_mask below
};

struct ibv_comp_cntr {
    struct ibv_context* context;
    uint32_t handle;
};

enum ibv_comp_cntr_type { IBV_COMP_CNTR_TYPE_WRS, IBV_COMP_CNTR_TYPE_BYTES };

struct ibv_comp_cntr_init_attr {
    uint32_t comp_mask;  // 0
    enum ibv_comp_cntr_type type;
    uint32_t flags;  // 0
};

struct ibv_qp_attach_comp_cntr_attr {
    uint32_t comp_mask;  // 0
    uint32_t op_mask;    // from bit 0: SEND, RECV, RDMA_READ, REMOTE_RDMA_READ, RDMA_WRITE, REMOTE_RDMA_WRITE
};

// What ibv_reg_mr_ex (v59) reads; comp_mask says which fields count.
struct ibv_mr_init_attr {
    size_t length;
    int access;
    uint64_t comp_mask;
    uint64_t iova;          // bit 0
    void* addr;             // bit 1
    int fd;                 // bit 2: of a dma-buf
    uint64_t fd_offset;     // bit 3
    struct ibv_dmah* dmah;  // bit 4
    struct ibv_buf* buf;    // bit 5; v64
};

extern "C" {

// 1.15. DMA handles: NULL with errno, or a positive errno.
struct ibv_dmah* ibv_alloc_dmah(struct ibv_context* context, struct ibv_dmah_init_attr* attributes);
int ibv_dealloc_dmah(struct ibv_dmah* handle);
struct ibv_mr* ibv_reg_mr_ex(struct ibv_pd* pd, struct ibv_mr_init_attr* attributes);

// 1.16. The first returns a descriptor, or -1 with errno; the speed is in units of 100 Mb/s.
int ibv_dm_export_dmabuf_fd(struct ibv_dm* dm);
int ibv_query_port_speed(struct ibv_context* context, uint32_t port_num, uint64_t* speed);

// 1.17
void* ibv_alloc_buf(struct ibv_pd* pd, size_t size, struct ibv_buf** buffer);
void ibv_free_buf(struct ibv_buf* buffer);
struct ibv_mr* ibv_reg_buf_mr(struct ibv_pd* pd, struct ibv_buf* buffer, void* address, size_t length,
                              int access);

// 1.18. Completion counters; a positive errno, or NULL with errno.
int _ibv_query_comp_cntr_caps(struct ibv_context* context, struct ibv_comp_cntr_caps* caps, size_t caps_size);
struct ibv_comp_cntr* ibv_create_comp_cntr(struct ibv_context* context,
                                           struct ibv_comp_cntr_init_attr* attributes);
int ibv_destroy_comp_cntr(struct ibv_comp_cntr* counter);
int ibv_set_comp_cntr(struct ibv_comp_cntr* counter, uint64_t value);
int ibv_set_err_comp_cntr(struct ibv_comp_cntr* counter, uint64_t value);
int ibv_inc_comp_cntr(struct ibv_comp_cntr* counter, uint64_t amount);
int ibv_inc_err_comp_cntr(struct ibv_comp_cntr* counter, uint64_t amount);
int ibv_read_comp_cntr(struct ibv_comp_cntr* counter, uint64_t* value);
int ibv_read_err_comp_cntr(struct ibv_comp_cntr* counter, uint64_t* value);
int ibv_qp_attach_comp_cntr(struct ibv_qp* qp, struct ibv_comp_cntr* counter,
                            struct ibv_qp_attach_comp_cntr_attr* attributes);
int ibv_export_buf_dmabuf_fd(struct ibv_buf* buffer);
}
