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
    return fail_null(EOPNOTSUPP, "%s queue pairs are not supported", to_string(setup.service));
}

int QueuePair::attach(const std::shared_ptr<CompletionCounter>& counter, std::uint32_t operations) {
    if (state_ != QpState::reset && state_ != QpState::init)
        return fail(EINVAL, "the QP is in state %s; counters are attached in RESET or INIT",
                    to_string(state_));
    if (!completion_counters_) completion_counters_ = std::make_unique<CompletionCounters>();
    if (completion_counters_->overlaps(operations))
        return fail(EBUSY, "one of the operations 0x%x of this QP has a counter", operations);
    completion_counters_->add(counter, operations);
    setup_.counted = completion_counters_.get();
    setup_.is_counted = true;
    return 0;
}

}  // namespace verbena::transport
