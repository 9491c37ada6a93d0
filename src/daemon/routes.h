// Which device and which address a connection uses: rdma_bind_addr's and rdma_resolve_addr's question.
//
// Loopback addresses and "any" are served by the loopback device itself; this host's other addresses by their
// own device, in both roles; everything else by the kernel's routing table, if the fabric has the wire: one
// with a UDP port of its own would ask for ever where nobody can hear it.
#pragma once

#include <string>
#include <utility>

#include "cm/types.h"
#include "daemon/devices.h"
#include "daemon/netlink.h"

namespace verbena::daemon {

class Routes {
   public:
    // `why_no_wire`: what a fabric without the wire says of it (host::FabricInfo::note); empty with the wire.
    Routes(const Devices& devices, Kernel& kernel, std::string why_no_wire = {})
        : devices_(devices), kernel_(kernel), why_no_wire_(std::move(why_no_wire)) {}

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
    const std::string why_no_wire_;
};

}  // namespace verbena::daemon
