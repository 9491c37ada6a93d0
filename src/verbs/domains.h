// Thread domains and parent domains (ibv_alloc_td(3), ibv_alloc_parent_domain(3)): slots of a context.
#pragma once

#include <infiniband/verbs.h>

namespace verbena::verbs {

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr);
int dealloc_td(ibv_td* td);
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr);

}  // namespace verbena::verbs
