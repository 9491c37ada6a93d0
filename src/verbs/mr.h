// Memory regions of all kinds: what mr.cpp offers to the other sources that register, and the context's
// slots.
#pragma once

#include <infiniband/verbs.h>

#include "verbs/objects.h"

namespace verbena::verbs {

struct Registration {
    ibv_pd* pd;
    void* address;
    std::uint64_t length;
    std::uint64_t iova;
    unsigned access;
};

// A region over memory that is known to be there. nullptr with errno and a reason.
Region* register_memory(const Registration& wanted);
// The same for memory of the program's, which must be mapped, and writable if so asked for.
ibv_mr* register_users_memory(const Registration& wanted);
// A region that is in the table already: its keys. nullptr with errno and a reason.
Region* another_handle(ibv_pd* pd, const memory::Keys& keys);
// One of no memory, with keys of its own.
Region* register_nothing(ibv_pd* pd);
// The handle's end; its keys are not touched.
void forget(Region* region);

// Slots (mr_kinds.cpp).
ibv_mr* alloc_null_mr(ibv_pd* pd);
int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* list,
              std::uint32_t count);
ibv_mr* reg_mr_ex(ibv_pd* pd, ibv_mr_init_attr* attributes);

}  // namespace verbena::verbs
