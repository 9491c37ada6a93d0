// A kernel whose tables the test writes.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <map>

#include "daemon/netlink.h"

namespace verbena::daemon::testing {

inline Gid gid(const char* text) {
    Gid out;
    in_addr ipv4{};
    if (inet_pton(AF_INET, text, &ipv4) == 1) return Gid::from_ipv4(ntohl(ipv4.s_addr));
    EXPECT_EQ(inet_pton(AF_INET6, text, out.bytes.data()), 1) << text;
    return out;
}

inline Interface interface(std::uint32_t index, const char* name, std::uint32_t mtu = 1500) {
    Interface out;
    out.index = index;
    out.name = name;
    out.mtu = mtu;
    out.up = out.running = true;
    out.loopback = out.name == "lo";
    out.has_mac = !out.loopback;
    out.mac = {2, 0, 0, 0, 0, static_cast<std::uint8_t>(index)};
    return out;
}

inline Address address(std::uint32_t interface_index, const char* text) {
    return {gid(text), interface_index};
}

class FakeKernel final : public Kernel {
   public:
    int interfaces(std::vector<Interface>& out) override {
        out = links;
        return 0;
    }
    int addresses(std::vector<Address>& out) override {
        out = locals;
        return 0;
    }
    int route(const Gid& destination, const Gid& source, std::uint32_t interface_index,
              KernelRoute& out) override {
        asked = {destination, source, interface_index};
        auto found = routes.find(destination);
        if (found == routes.end()) return ENETUNREACH;
        out = found->second;
        return 0;
    }
    NeighborState neighbor(const Gid& address, std::uint32_t) override {
        auto found = neighbors.find(address);
        return found == neighbors.end() ? NeighborState::unknown : found->second;
    }

    std::vector<Interface> links;
    std::vector<Address> locals;
    std::map<Gid, KernelRoute> routes;
    std::map<Gid, NeighborState> neighbors;
    struct {
        Gid destination, source;
        std::uint32_t interface_index;
    } asked;
};

}  // namespace verbena::daemon::testing
