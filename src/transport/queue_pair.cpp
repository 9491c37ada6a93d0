#include "transport/queue_pair.h"

#include <cerrno>

#include "base/reason.h"
#include "transport/qp_state_table.h"
#include "transport/rc_queue_pair.h"
#include "transport/ud_queue_pair.h"

namespace verbena::transport {

std::unique_ptr<QueuePair> QueuePair::create(const QpSetup& setup) {
    if (setup.service == Service::rc || setup.service == Service::uc || setup.service == Service::xrc_send ||
        setup.service == Service::xrc_receive)
        return std::make_unique<RcQueuePair>(setup);
    if (setup.service == Service::ud) return std::make_unique<UdQueuePair>(setup);
    return fail_null(EOPNOTSUPP, "%s queue pairs are not supported yet", to_string(setup.service));
}

}  // namespace verbena::transport
