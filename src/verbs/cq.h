// Extended completion queues (ibv_create_cq_ex(3)): the slots of a context, and what their creation shares
// with plain ones.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace verbena::verbs {

struct Cq;

struct CqSetup {
    std::int64_t cqe;
    void* cq_context;
    ibv_comp_channel* channel;
    std::int64_t comp_vector;
    bool ignore_overrun = false;
};

// nullptr with errno and a reason.
Cq* create_completion_queue(ibv_context* context, const CqSetup& setup);

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr);
int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* attr);

}  // namespace verbena::verbs
