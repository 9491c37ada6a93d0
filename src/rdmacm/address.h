// Between socket addresses and the connection manager's endpoints, and what an id shows of its route.
#pragma once

#include <rdma/rdma_cma.h>

#include "cm/types.h"

namespace verbena::rdmacm {

inline constexpr int kFamilyIb = 27;  // AF_IB

struct Id;

// 0, or -1 with errno and a reason: EINVAL (no address, or of no known family). The port of an AF_IB address
// is in its service id.
int to_endpoint(const sockaddr* address, cm::Endpoint& endpoint);

// Zeroes `address` if the endpoint is not set. The port space is part of an AF_IB address.
void to_sockaddr(const cm::Endpoint& endpoint, rdma_port_space space, sockaddr_storage& address);

// The size of the structure, by family; 0: none of rdma_cm's.
socklen_t length_of(const sockaddr* address);

ibv_gid to_gid(const Gid& gid);

// Shows what the daemon knows of an id in the public fields: addresses, device, path. 0, or -1 with errno and
// a reason.
int show(Id& id, const cm::IdInfo& info);

ibv_ah_attr address_vector(const cm::Route& route);

}  // namespace verbena::rdmacm
