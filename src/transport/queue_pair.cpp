#include "transport/queue_pair.h"

#include <cerrno>
#include <utility>

#include "base/reason.h"
#include "transport/qp_state_table.h"
#include "transport/rc_queue_pair.h"
#include "transport/ud_queue_pair.h"

namespace verbena::transport {

QueuePair::Rest::Rest(const QpSetup& all) : setup(all) {
    if (setup.busy_counters && setup.rare_counters) return;
    own_counters = std::make_unique<QpCounters>();
    setup.busy_counters = own_counters.get();
    setup.rare_counters = own_counters.get();
}

QueuePair::QueuePair(std::unique_ptr<Rest> rest)
    : rest_(std::move(rest)), counters_(*rest_->setup.busy_counters), basics_(rest_->setup) {}

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
    auto& counters = rest_->completion_counters;
    if (!counters) counters = std::make_unique<CompletionCounters>();
    if (counters->overlaps(operations))
        return fail(EBUSY, "one of the operations 0x%x of this QP has a counter", operations);
    counters->add(counter, operations);
    rest_->setup.counted = counters.get();
    rest_->setup.is_counted = basics_.is_counted = true;
    return 0;
}

}  // namespace verbena::transport
