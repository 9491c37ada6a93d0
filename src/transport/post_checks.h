// What can be refused when a send request is posted (IBA 11.4.1.1: immediate errors).
#pragma once

#include "transport/queue_pair.h"

namespace verbena::transport {

// 0, or EINVAL or EOPNOTSUPP with a reason. `length` is the sum of the elements. For RC.
int check_rc_send(const QpSetup& setup, const Attributes& attributes, QpState state,
                  const SendRequest& request, std::uint32_t& length);

}  // namespace verbena::transport
