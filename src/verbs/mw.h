// Memory windows: what the context's slots and the posting interfaces need of mw.cpp.
#pragma once

#include <infiniband/verbs.h>

#include "transport/requests.h"

namespace verbena::verbs {

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type);
int dealloc_mw(ibv_mw* mw);
// ibv_bind_mw(3): type 1, posted like a send request; the window has its new rkey at once.
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);

// The transport's request of IBV_WR_BIND_MW, whose operation, id and flags are set already. EINVAL with a
// reason for what no queue pair could execute.
int describe_bind(const ibv_mw* mw, std::uint32_t rkey, const ibv_mw_bind_info& info,
                  transport::SendRequest& request);

}  // namespace verbena::verbs
