#include "transport/common.h"

#include <utility>

#include "transport/mutation.h"
#include "wire/psn.h"

namespace verbena::transport {

void take_attributes(Attributes& to, const Attributes& from, std::uint32_t mask) {
    const auto take = [&](std::uint32_t bit, auto field) {
        if (mask & bit) to.*field = from.*field;
    };
    take(kAttrAccessFlags, &Attributes::access);
    take(kAttrPkeyIndex, &Attributes::pkey_index);
    take(kAttrPort, &Attributes::port);
    take(kAttrQkey, &Attributes::qkey);
    take(kAttrAv, &Attributes::path);
    take(kAttrPathMtu, &Attributes::path_mtu);
    take(kAttrTimeout, &Attributes::timeout);
    take(kAttrRetryCount, &Attributes::retry_count);
    take(kAttrRnrRetry, &Attributes::rnr_retry);
    take(kAttrRqPsn, &Attributes::rq_psn);
    take(kAttrSqPsn, &Attributes::sq_psn);
    take(kAttrMaxQpRdAtomic, &Attributes::max_rd_atomic);
    take(kAttrMaxDestRdAtomic, &Attributes::max_destination_rd_atomic);
    take(kAttrMinRnrTimer, &Attributes::min_rnr_timer);
    take(kAttrDestQpn, &Attributes::destination_qp);
    take(kAttrRateLimit, &Attributes::rate_limit);
    take(kAttrRateLimit, &Attributes::max_burst);
    take(kAttrSqdAsyncNotify, &Attributes::sqd_async_notify);
    to.rq_psn &= wire::kPsnMask;
    to.sq_psn &= wire::kPsnMask;
}

void complete_receive_in_error(const QpSetup& setup, std::uint64_t wr_id, completion::Status status,
                               VendorError error, Time now) {
    completion::Completion c;
    c.wr_id = wr_id;
    c.status = status;
    c.opcode = completion::Opcode::receive;
    c.vendor_error = static_cast<std::uint32_t>(error);
    c.qp_number = setup.number;
    c.timestamp = static_cast<std::uint64_t>(now);
    count_completed(setup, Counted::receive, false, 0);
    setup.receive_cq->push(c, false);
}

void forget_completions(const QpSetup& setup) {
    for (completion::CompletionQueue* queue : {setup.send_cq, setup.receive_cq})
        if (queue) queue->forget(setup.number);
}

void flush_receives(const QpSetup& setup, Time now) {
    ReceiveQueue* const own = setup.own_receives();
    if (!own) return;
    bool skip = mutated(Mutation::flush_skips_one);
    std::uint64_t wr_id = 0;
    while (own->take_id(wr_id))
        if (!std::exchange(skip, false))
            complete_receive_in_error(setup, wr_id, completion::Status::work_request_flushed,
                                      VendorError::flushed, now);
}

}  // namespace verbena::transport
