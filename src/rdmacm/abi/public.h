// The names that librdmacm.so.1 exports, declared with default visibility; read by the compiler before every
// source of src/rdmacm. See src/verbs/abi/public.h, of which this is the other half.
#pragma once

#pragma GCC visibility push(default)

#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>

struct epoll_event;

extern "C" {

// The function of libibverbs.so.1 that ties the two libraries together at load (version node VERBENA_1).
const char* verbena_build_id();

// What verbena.h looks for.
const char* verbena_cm_event_reason(const struct rdma_cm_event* event);

// Releases after v44, whose headers this is compiled with. All return -1 with errno.
// RDMACM_1.4 (v60)
int rdma_resolve_addrinfo(struct rdma_cm_id* id, const char* node, const char* service,
                          const struct rdma_addrinfo* hints);
int rdma_query_addrinfo(struct rdma_cm_id* id, struct rdma_addrinfo** info);
int rdma_write_cm_event(struct rdma_cm_id* id, enum rdma_cm_event_type event, int status, uint64_t arg);
// RDMACM_1.5 (the development head of August 2026): epoll over rsockets.
int repoll_create(int flags);
int repoll_ctl(int epfd, int op, int fd, struct epoll_event* event);
int repoll_wait(int epfd, struct epoll_event* events, int maxevents, int timeout);
}

#pragma GCC visibility pop
