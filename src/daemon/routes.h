// Which device and which address a connection uses: rdma_bind_addr's and rdma_resolve_addr's question.
//
// Loopback addresses and "any" are served by the loopback device itself; this host's other addresses by their
// own device, in both roles; everything else by the kernel's routing table.
#pragma once

#include "cm/types.h"
#include "daemon/devices.h"
#include "daemon/netlink.h"

namespace verbena::daemon {

class Routes {
   public:
    Routes(const Devices& devices, Kernel& kernel) : devices_(devices), kernel_(kernel) {}

    // As cm::Environment has them.
    int find_local(const cm::Endpoint& local, cm::Route& route) const;
    int find_route(const cm::Endpoint& source, const cm::Endpoint& remote, cm::Route& route,
                   Gid& source_address) const;

   private:
    int to_loopback(const cm::Endpoint& source, const cm::Endpoint& remote, cm::Route& route,
                    Gid& source_address) const;
    int to_own(const cm::Endpoint& source, const cm::Endpoint& remote, cm::Route& route,
               Gid& source_address) const;
    int to_group(const cm::Endpoint& source, const cm::Endpoint& group, cm::Route& route,
                 Gid& source_address) const;
    int to_network(const cm::Endpoint& source, const cm::Endpoint& remote, cm::Route& route,
                   Gid& source_address) const;

    const Devices& devices_;
    Kernel& kernel_;
};

}  // namespace verbena::daemon
