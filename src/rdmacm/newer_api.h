// What releases after Debian 12's headers (v44) added to <rdma/rdma_cma.h>, as far as we implement it.
#pragma once

#include <rdma/rdma_cma.h>

#include <cstdint>

namespace verbena::rdmacm {

// enum rdma_cm_event_type, v60.
inline constexpr int kEventAddrinfoResolved = 16;
inline constexpr int kEventAddrinfoError = 17;
inline constexpr int kEventUser = 18;
inline constexpr int kEventInternal = 19;

// The union rdma_cm_event::param got `uint64_t arg`, for user events.
inline void set_argument(rdma_cm_event& event, std::uint64_t argument) {
    static_assert(sizeof event.param >= sizeof argument);
    __builtin_memcpy(&event.param, &argument, sizeof argument);
}

}  // namespace verbena::rdmacm

extern "C" int rdma_write_cm_event(rdma_cm_id* id, enum rdma_cm_event_type event, int status, uint64_t arg);
