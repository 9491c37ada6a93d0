// Port spaces: who holds which port of which space, and whether another may share it. They are rdma_cm's own,
// independent of TCP's and UDP's ports; one table serves one network namespace. The rules, and which errno a
// conflict has, are the Linux kernel's:
//   - the same concrete address twice: EADDRINUSE; "any" (or loopback, which counts as any) against anything:
//     EADDRNOTAVAIL;
//   - two ids that both asked for REUSEADDR share, unless the one that is there listens;
//   - ids of different families share if both are address-family-only;
//   - a port that the table chooses may be shared with an id that talks to another peer.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "cm/types.h"

namespace verbena::cm {

struct PortClaim {
    Endpoint local;
    Endpoint remote;  // family 0 if not known
    bool reuse = false;
    bool family_only = false;
    bool listening = false;
};

class Ports {
   public:
    // Takes `claim.local.port` for `owner`. 0, EADDRINUSE or EADDRNOTAVAIL with a reason.
    int claim(PortSpace space, IdNumber owner, const PortClaim& claim);

    // Chooses a port of the range, starting at a random one and never the one chosen last. 0 or
    // EADDRNOTAVAIL.
    int claim_any(PortSpace space, IdNumber owner, PortClaim claim,
                  std::pair<std::uint16_t, std::uint16_t> range, std::uint32_t random, std::uint16_t& port);

    // May `owner` listen, sharing with nobody? The same errors as claim().
    int check_exclusive(PortSpace space, std::uint16_t port, IdNumber owner);

    // The owner's claim, to change its flags; nullptr if it has none.
    PortClaim* find(PortSpace space, std::uint16_t port, IdNumber owner);
    void release(PortSpace space, std::uint16_t port, IdNumber owner);

    bool in_use(PortSpace space, std::uint16_t port) const { return owners_.contains({space, port}); }

   private:
    using Owners = std::map<IdNumber, PortClaim>;

    static int check(const Owners& owners, IdNumber owner, const PortClaim& claim, bool reuse);
    static bool unique(const Owners& owners, const PortClaim& claim);

    std::map<std::pair<PortSpace, std::uint16_t>, Owners> owners_;
    std::uint32_t last_chosen_ = 0;
};

// Loopback is "any" in these rules, as in the kernel's.
inline bool any_or_loopback(const Endpoint& endpoint) { return endpoint.is_any() || endpoint.is_loopback(); }

}  // namespace verbena::cm
