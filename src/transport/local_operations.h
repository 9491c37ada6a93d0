// Send requests that are executed by the requester itself and send nothing: bind a memory window, local
// invalidate (IBA 11.4.1.1, 10.6.7.2, 10.6.5). They take their place in the send queue's order:
//
//     a bind      when the requests before it have been sent (with kFence: READs and atomics answered),
//     before
//                 the next starts
//     invalidate  when the requests before it have completed: what is sent again still needs its keys
//
// Each is done when nobody uses the old key any more (memory::GraceWatch). A region's rkey may be in use by
// another process of this host, too (memory/outsiders.h), which knows nothing of windows.
#pragma once

#include "transport/queue_pair.h"
#include "transport/send_queue.h"

namespace verbena::transport {

inline constexpr Duration kGraceStep = 20 * kMicrosecond;  // how often the grace period is looked at

// At once; inside a Section. VendorError::none, or one whose status is local_status().
VendorError execute_local(const QpSetup& setup, const SendEntry& entry);
// After that, and after the grace period.
void wait_for_outsiders(const QpSetup& setup, const SendEntry& entry);

}  // namespace verbena::transport
