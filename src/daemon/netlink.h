// What the kernel knows of interfaces, addresses, routes and neighbours, asked over rtnetlink. Needs no
// privilege.
//
// Not thread-safe. Errors: positive errno values; a reason is recorded where the kernel itself failed.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/gid.h"

struct nlmsghdr;

namespace verbena::daemon {

struct Interface {
    std::uint32_t index = 0;
    std::string name;
    std::uint32_t mtu = 0;
    std::uint32_t speed = 0;  // Mbit/s; 0: unknown
    bool up = false;          // administratively
    bool running = false;     // has a carrier
    bool loopback = false;
    bool resolves = true;  // false: no ARP or neighbour discovery on it (tunnels)
    std::array<std::uint8_t, 6> mac{};
    bool has_mac = false;
};

struct Address {
    Gid gid;
    std::uint32_t interface_index = 0;
    bool usable = true;      // not tentative and not a duplicate
    bool temporary = false;  // IPv6 privacy address
};

struct KernelRoute {
    std::uint32_t interface_index = 0;
    Gid source;  // zero: none was said
    Gid next_hop;
    bool local = false;
    bool multicast = false;
};

enum class NeighborState { unknown, resolving, reachable, failed };

// The questions, so that tests can answer them.
class Kernel {
   public:
    virtual ~Kernel() = default;
    virtual int interfaces(std::vector<Interface>& out) = 0;
    virtual int addresses(std::vector<Address>& out) = 0;
    // `source` zero and `interface_index` 0: any. ENETUNREACH, EHOSTUNREACH, EINVAL, ...
    virtual int route(const Gid& destination, const Gid& source, std::uint32_t interface_index,
                      KernelRoute& out) = 0;
    virtual NeighborState neighbor(const Gid& address, std::uint32_t interface_index) = 0;
};

class Netlink final : public Kernel {
   public:
    // 0 or an errno with a reason.
    int open();
    int interfaces(std::vector<Interface>& out) override;
    int addresses(std::vector<Address>& out) override;
    int route(const Gid& destination, const Gid& source, std::uint32_t interface_index,
              KernelRoute& out) override;
    NeighborState neighbor(const Gid& address, std::uint32_t interface_index) override;

   private:
    using Visitor = std::function<void(const nlmsghdr&)>;
    int ask(void* request, const Visitor& visit);
    int dump(std::uint16_t type, const Visitor& visit);

    Descriptor socket_;
    std::uint32_t sequence_ = 0;
    std::vector<std::uint8_t> buffer_;
};

// Tells that interfaces or addresses have changed; how, is asked anew.
class NetlinkMonitor {
   public:
    int open();
    int fd() const { return socket_.get(); }
    void drain();

   private:
    Descriptor socket_;
};

}  // namespace verbena::daemon
