// Neighbour resolution: whether the next hop of a route answers. The kernel does it; we make it ask (a
// datagram to the discard port with a TTL of 1, which goes no further than the link) and watch its table. It
// may give up, or forget that it was asked (a link that has just come up), and is asked again then: as in
// Linux, only the caller's own timeout (rdma_resolve_addr's) ends the question, and that is not our concern.
// A token that nobody waits for any more is dropped.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/time.h"
#include "cm/types.h"
#include "daemon/devices.h"
#include "daemon/netlink.h"

namespace verbena::daemon {

class Neighbors {
   public:
    using Answer = std::function<void(std::uint64_t token, int error)>;
    using Wanted = std::function<bool(std::uint64_t token)>;
    // Makes the kernel resolve; 0 or an errno. Tests have their own.
    using Trigger = std::function<int(const Gid& destination, std::uint32_t interface_index)>;

    Neighbors(const Devices& devices, Kernel& kernel, Answer answer, Wanted wanted, Trigger trigger);

    // 0 (the answer comes, perhaps from inside) or an errno with a reason.
    int resolve(const cm::Route& route, std::uint64_t token, Time now);

    // Looks at those that wait; call it at next_deadline().
    void check(Time now);
    Time next_deadline() const { return pending_.empty() ? kNever : next_check_; }

   private:
    struct Pending {
        std::uint64_t token;
        Gid destination, next_hop;
        std::uint32_t interface_index;
        Time ask_again;
    };

    const Devices& devices_;
    Kernel& kernel_;
    Answer answer_;
    Wanted wanted_;
    Trigger trigger_;
    std::vector<Pending> pending_;
    Time next_check_ = kNever;
    Duration interval_ = 0;
};

// The real trigger.
int send_probe(const Gid& destination, std::uint32_t interface_index);

}  // namespace verbena::daemon
