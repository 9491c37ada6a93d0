// XRC domains (annex A14): what XRC queue pairs and XRC receive queues have in common.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>

#include "transport/queue_pair.h"

namespace verbena::verbs {

struct Xrcd {
    ibv_xrcd base{};
    std::uint32_t domain = 0;  // equal in all that were opened with the same file; never 0
    std::atomic<std::uint32_t> users{0};

    static Xrcd* of(ibv_xrcd* xrcd) { return reinterpret_cast<Xrcd*>(xrcd); }
};

// The handle's end; nothing uses it any more.
void leave_domain(Xrcd& xrcd);

struct QueuePair;

// What the handles of one XRC_RECV queue pair share (ibv_open_qp(3)): it lives as long as one of them, and
// its asynchronous events go to all.
class XrcTarget final : public transport::QpListener {
   public:
    explicit XrcTarget(std::uint32_t domain) : domain_(domain) {}

    // Makes the creator's handle known to open_qp().
    static void enroll(QueuePair& qp);
    // A further handle, whose domain is set, of the queue pair of that number.
    static int join(std::uint32_t number, QueuePair& qp, ibv_qp_state& state);
    // True if it was the last handle.
    static bool leave(QueuePair& qp);

    void qp_event(transport::QueuePair& qp, transport::QpEvent event) override;

   private:
    const std::uint32_t domain_;
    std::mutex lock_;
    std::set<QueuePair*> handles_;
};

// Slots of the context.
ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* attr);
ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attr);
int close_xrcd(ibv_xrcd* xrcd);

}  // namespace verbena::verbs
