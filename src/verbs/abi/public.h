// The names that libibverbs.so.1 exports, declared with default visibility. The compiler is told to read this
// before every source of src/verbs (src/verbs/CMakeLists.txt), because the distribution's headers say nothing
// about visibility and everything here is compiled with -fvisibility=hidden: a definition of a public name is
// exported because its declaration was seen here first, and nothing else is.
//
// <infiniband/verbs.h> makes function-like macros of ibv_reg_mr, ibv_reg_mr_iova and ibv_query_port; whoever
// defines those functions writes #undef first.
//
// Also what no installed header declares: functions that used to be public or that only the distribution's
// providers use, and those of newer releases (newer.h).
#pragma once

#pragma GCC visibility push(default)

#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#include "verbs/abi/newer.h"

struct ib_uverbs_ah_attr;
struct ib_uverbs_qp_attr;
struct ib_user_path_rec;

// What devinfo prints as "RoCE v1" and "RoCE v2".
enum ibv_gid_type_sysfs { IBV_GID_TYPE_SYSFS_IB_ROCE_V1, IBV_GID_TYPE_SYSFS_ROCE_V2 };

extern "C" {

// "0.1.0 (protocol 1)", at the node VERBENA_1, which librdmacm.so.1 of the same build imports. One of ours
// with one of a distribution's therefore fails at load, with the loader's "version `VERBENA_1' not found".
const char* verbena_build_id();

// What the functions of verbena.h look for (it also says what they do).
const char* verbena_last_reason();
const char* verbena_wc_reason(const struct ibv_wc* completion);
const char* verbena_completion_reason(uint32_t qp_num, uint64_t wr_id, int status, uint32_t vendor_err);
const char* verbena_async_event_reason(const struct ibv_async_event* event);

const char* ibv_get_sysfs_path();
int ibv_read_sysfs_file(const char* directory, const char* file, char* buffer, size_t size);
int ibv_dontfork_range(void* base, size_t size);
int ibv_dofork_range(void* base, size_t size);

void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr* to, struct ib_uverbs_qp_attr* from);
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr* to, struct ib_uverbs_ah_attr* from);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec* to, struct ib_user_path_rec* from);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec* to, struct ibv_sa_path_rec* from);

// Private nodes (IBVERBS_PRIVATE_*). The first returns 0, or -1 with errno.
int ibv_query_gid_type(struct ibv_context* context, uint8_t port_num, unsigned int index,
                       enum ibv_gid_type_sysfs* type);
const char* ibv_wr_opcode_str(enum ibv_wr_opcode opcode);
}

#pragma GCC visibility pop
