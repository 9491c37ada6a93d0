// The functions of verbena.h that concern calls, completions and asynchronous events. (The one for events of
// the connection manager is librdmacm's.)
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "base/failures.h"
#include "base/reason.h"
#include "base/thread_text.h"
#include "transport/vendor_error.h"

namespace {

template <class Make>
const char* give(verbena::ThreadText which, Make make) {
    const int saved = errno;
    char* const answer = verbena::thread_text(which);
    std::snprintf(answer, verbena::kThreadText, "%s", make().c_str());
    errno = saved;
    return answer;
}

std::string of_completion(std::uint32_t qp, std::uint64_t wr_id, int status, std::uint32_t vendor_err) {
    using verbena::transport::VendorError;
    if (status == IBV_WC_SUCCESS) return {};
    if (status == IBV_WC_WR_FLUSH_ERR) {
        const std::string cause = verbena::failure_of_queue_pair(qp);
        return verbena::transport::to_string(VendorError::flushed) + (cause.empty() ? "" : ": " + cause);
    }
    const std::string text = verbena::failure_of_request(qp, wr_id);
    return text.empty() ? verbena::transport::to_string(static_cast<VendorError>(vendor_err)) : text;
}

std::string of_event(const ibv_async_event& event) {
    switch (event.event_type) {
        case IBV_EVENT_QP_FATAL:
        case IBV_EVENT_QP_REQ_ERR:
        case IBV_EVENT_QP_ACCESS_ERR:
            return verbena::failure_of_queue_pair(event.element.qp->qp_num);
        case IBV_EVENT_CQ_ERR:
            return "the completion queue has overrun: more completions waited than its " +
                   std::to_string(event.element.cq->cqe) + " places";
        case IBV_EVENT_DEVICE_FATAL:
            return "the daemon has died, or the device's network interface is gone";
        case IBV_EVENT_PORT_ERR:
            return "the port's network interface is down";
        default:
            return {};
    }
}

}  // namespace

using verbena::ThreadText;

extern "C" {

const char* verbena_last_reason() { return verbena::last_reason(); }

const char* verbena_completion_reason(std::uint32_t qp_num, std::uint64_t wr_id, int status,
                                      std::uint32_t vendor_err) {
    return give(ThreadText::completion, [=] { return of_completion(qp_num, wr_id, status, vendor_err); });
}

const char* verbena_wc_reason(const ibv_wc* completion) {
    return give(ThreadText::work_completion, [=] {
        return of_completion(completion->qp_num, completion->wr_id, completion->status,
                             completion->vendor_err);
    });
}

const char* verbena_async_event_reason(const ibv_async_event* event) {
    return give(ThreadText::event, [=] { return of_event(*event); });
}
}
