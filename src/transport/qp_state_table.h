// Which modifications the specification allows (IBA 11.2.5.3, table 91): for each service and transition, the
// attributes that must be given and those that may be.
#pragma once

#include <cstdint>

#include "transport/attributes.h"

namespace verbena::transport {

// Outstanding READs and atomics of a queue pair, each direction.
inline constexpr std::uint32_t kMaxRdAtomicLimit = 128;

struct Transition {
    bool allowed = false;
    std::uint32_t required = 0;
    std::uint32_t optional = 0;
};
Transition transition(Service service, QpState from, QpState to);

// "IBV_QP_PATH_MTU" for one bit of the mask.
const char* attribute_name(std::uint32_t bit);
const char* to_string(Service service);

// 0, or EINVAL with a reason that names the transition and the attribute that is missing or forbidden, or the
// value that is out of its range. `to` is the state after the call.
int check_modify(Service service, QpState from, const Attributes& attributes, std::uint32_t mask,
                 QpState& to);

}  // namespace verbena::transport
