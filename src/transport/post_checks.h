// What can be refused when a send request is posted (IBA 11.4.1.1: immediate errors).
#pragma once

#include <span>

#include "transport/queue_pair.h"

namespace verbena::transport {

// 0, or EINVAL or EOPNOTSUPP with a reason. `length` is the sum of the elements. For any service; which
// operations it has says operations.h. A datagram's length is not looked at: too long a one completes in
// error.
int check_send(const QpSetup& setup, const Attributes& attributes, QpState state, const SendRequest& request,
               std::uint32_t& length);

// The same for requests that are to be posted together or not at all; ENOMEM if there are more than `room`.
int check_sends(const QpSetup& setup, const Attributes& attributes, QpState state,
                std::span<const SendRequest> requests, std::uint32_t room);

}  // namespace verbena::transport
