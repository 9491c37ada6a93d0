// What releases after Debian 12's headers (v44) added to <rdma/rdma_cma.h>, as far as we implement it.
#pragma once

#include <rdma/rdma_cma.h>

#include <cstdint>

namespace verbena::rdmacm {

// rdma_addrinfo::ai_flags, v60.
inline constexpr int kAddrinfoSa = 0x10;
inline constexpr int kAddrinfoDns = 0x20;

// enum rdma_cm_event_type, v60.
inline constexpr unsigned kEventAddrinfoResolved = 16;
inline constexpr unsigned kEventAddrinfoError = 17;
inline constexpr unsigned kEventUser = 18;
inline constexpr unsigned kEventInternal = 19;

// A program built with newer headers passes values that the enumeration does not have here: they are read and
// written as the integers that they are.
template <class Enumeration>
unsigned raw(const Enumeration& value) {
    unsigned out;
    static_assert(sizeof out == sizeof value);
    __builtin_memcpy(&out, &value, sizeof out);
    return out;
}
inline void set_type(rdma_cm_event& event, unsigned type) {
    static_assert(sizeof type == sizeof event.event);
    __builtin_memcpy(&event.event, &type, sizeof type);
}

// The union rdma_cm_event::param got `uint64_t arg`, for user events.
inline void set_argument(rdma_cm_event& event, std::uint64_t argument) {
    static_assert(sizeof event.param >= sizeof argument);
    __builtin_memcpy(&event.param, &argument, sizeof argument);
}

}  // namespace verbena::rdmacm
