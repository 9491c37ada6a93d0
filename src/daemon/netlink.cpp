#include "daemon/netlink.h"

#include <linux/ethtool.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_arp.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/own_socket.h"
#include "base/reason.h"

namespace verbena::daemon {
namespace {

constexpr unsigned kDumpAttempts = 5;  // a dump that something changed under is repeated

// A request: header, family structure, attributes.
template <class Body>
struct Message {
    alignas(nlmsghdr) std::array<std::uint8_t, 256> bytes{};

    Message(std::uint16_t type, std::uint16_t flags) {
        header().nlmsg_len = NLMSG_LENGTH(sizeof(Body));
        header().nlmsg_type = type;
        header().nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
    }
    nlmsghdr& header() { return *static_cast<nlmsghdr*>(static_cast<void*>(bytes.data())); }
    Body& body() { return *static_cast<Body*>(static_cast<void*>(bytes.data() + NLMSG_HDRLEN)); }
    void add(std::uint16_t type, const void* data, std::size_t size) {
        rtattr attribute{};
        attribute.rta_len = static_cast<std::uint16_t>(RTA_LENGTH(size));
        attribute.rta_type = type;
        std::uint8_t* at = bytes.data() + NLMSG_ALIGN(header().nlmsg_len);
        std::memcpy(at, &attribute, sizeof attribute);
        std::memcpy(at + RTA_LENGTH(0), data, size);
        header().nlmsg_len =
            static_cast<std::uint32_t>(NLMSG_ALIGN(header().nlmsg_len) + RTA_ALIGN(attribute.rta_len));
    }
    void add(std::uint16_t type, std::uint32_t value) { add(type, &value, sizeof value); }
    void add_address(std::uint16_t type, const Gid& gid) {
        if (gid.is_ipv4())
            add(type, gid.bytes.data() + 12, 4);
        else
            add(type, gid.bytes.data(), 16);
    }
};

// The family structure and the attributes behind it; an attribute that is absent has no data.
template <class Body>
class Answer {
   public:
    explicit Answer(const nlmsghdr& message) {
        const auto* start = static_cast<const std::uint8_t*>(static_cast<const void*>(&message));
        std::size_t offset = NLMSG_HDRLEN;
        if (message.nlmsg_len < offset + sizeof(Body)) return;
        std::memcpy(static_cast<void*>(&body), start + offset, sizeof(Body));
        for (offset += NLMSG_ALIGN(sizeof(Body)); offset + sizeof(rtattr) <= message.nlmsg_len;) {
            rtattr attribute;
            std::memcpy(&attribute, start + offset, sizeof attribute);
            if (attribute.rta_len < sizeof attribute || offset + attribute.rta_len > message.nlmsg_len)
                return;
            const std::size_t type = attribute.rta_type & NLA_TYPE_MASK;
            if (type < attributes_.size())
                attributes_[type] = {start + offset + RTA_LENGTH(0), attribute.rta_len - RTA_LENGTH(0)};
            offset += RTA_ALIGN(attribute.rta_len);
        }
    }
    bool has(unsigned type) const { return attributes_[type].data != nullptr; }
    std::uint32_t number(unsigned type) const {
        std::uint32_t value = 0;
        if (attributes_[type].size >= sizeof value) std::memcpy(&value, attributes_[type].data, sizeof value);
        return value;
    }
    std::string text(unsigned type) const {
        const char* data = static_cast<const char*>(static_cast<const void*>(attributes_[type].data));
        return data ? std::string(data, strnlen(data, attributes_[type].size)) : std::string();
    }
    Gid address(unsigned type) const {
        Gid gid;
        const auto& attribute = attributes_[type];
        if (attribute.size == 4) {
            gid.bytes[10] = gid.bytes[11] = 0xff;
            std::memcpy(gid.bytes.data() + 12, attribute.data, 4);
        } else if (attribute.size == 16) {
            std::memcpy(gid.bytes.data(), attribute.data, 16);
        }
        return gid;
    }
    // False if it has another size.
    template <std::size_t size>
    bool copy(unsigned type, std::array<std::uint8_t, size>& out) const {
        if (attributes_[type].size != size) return false;
        std::memcpy(out.data(), attributes_[type].data, size);
        return true;
    }

    Body body{};

   private:
    struct Attribute {
        const std::uint8_t* data = nullptr;
        std::size_t size = 0;
    };
    std::array<Attribute, 64> attributes_{};
};

std::uint32_t link_speed(const std::string& name) {
    Descriptor fd(own_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC));
    ethtool_cmd command{};
    command.cmd = ETHTOOL_GSET;
    ifreq request{};
    std::strncpy(request.ifr_name, name.c_str(), IFNAMSIZ - 1);
    request.ifr_data = static_cast<char*>(static_cast<void*>(&command));
    if (!fd || ioctl(fd.get(), SIOCETHTOOL, &request) != 0) return 0;
    const std::uint32_t speed = ethtool_cmd_speed(&command);
    return speed == static_cast<std::uint32_t>(SPEED_UNKNOWN) ? 0 : speed;
}

int open_socket(std::uint32_t groups, Descriptor& out) {
    Descriptor fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
    sockaddr_nl address{};
    address.nl_family = AF_NETLINK;
    address.nl_groups = groups;
    if (!fd ||
        bind(fd.get(), static_cast<const sockaddr*>(static_cast<const void*>(&address)), sizeof address) != 0)
        return fail(errno, "netlink: %s", std::strerror(errno));
    out = std::move(fd);
    return 0;
}

}  // namespace

int Netlink::open() {
    buffer_.resize(64 << 10);
    return open_socket(0, socket_);
}

// The kernel answers inside send(), so nothing here waits. Returns 0, the kernel's error, or EINTR if a dump
// has to be repeated.
int Netlink::ask(void* request, const Visitor& visit) {
    auto* header = static_cast<nlmsghdr*>(request);
    header->nlmsg_seq = ++sequence_;
    if (send(socket_.get(), request, header->nlmsg_len, 0) < 0)
        return fail(errno, "netlink: %s", std::strerror(errno));
    bool interrupted = false;
    for (;;) {
        ssize_t size = recv(socket_.get(), buffer_.data(), buffer_.size(), 0);
        if (size < 0 && errno == EINTR) continue;
        if (size < 0) return fail(errno, "netlink: %s", std::strerror(errno));
        auto left = static_cast<std::size_t>(size);
        for (const std::uint8_t* at = buffer_.data(); left >= sizeof(nlmsghdr);) {
            const auto& message = *static_cast<const nlmsghdr*>(static_cast<const void*>(at));
            if (message.nlmsg_len < sizeof(nlmsghdr) || message.nlmsg_len > left) break;
            if (message.nlmsg_seq == sequence_) {
                if (message.nlmsg_flags & NLM_F_DUMP_INTR) interrupted = true;
                if (message.nlmsg_type == NLMSG_DONE) return interrupted ? EINTR : 0;
                if (message.nlmsg_type == NLMSG_ERROR) {
                    nlmsgerr error{};
                    std::memcpy(&error, at + NLMSG_HDRLEN, sizeof error);
                    return -error.error;
                }
                visit(message);
                if (!(message.nlmsg_flags & NLM_F_MULTI)) return 0;
            }
            const std::size_t step = NLMSG_ALIGN(message.nlmsg_len);
            if (step >= left) break;
            at += step;
            left -= step;
        }
    }
}

int Netlink::dump(std::uint16_t type, const Visitor& visit) {
    Message<rtgenmsg> request(type, NLM_F_DUMP);
    request.body().rtgen_family = AF_UNSPEC;
    return ask(request.bytes.data(), visit);
}

int Netlink::interfaces(std::vector<Interface>& out) {
    int error = EINTR;
    for (unsigned attempt = 0; attempt < kDumpAttempts && error == EINTR; attempt++) {
        out.clear();
        error = dump(RTM_GETLINK, [&](const nlmsghdr& message) {
            if (message.nlmsg_type != RTM_NEWLINK) return;
            Answer<ifinfomsg> answer(message);
            Interface each;
            each.index = static_cast<std::uint32_t>(answer.body.ifi_index);
            each.name = answer.text(IFLA_IFNAME);
            each.mtu = answer.number(IFLA_MTU);
            each.up = answer.body.ifi_flags & IFF_UP;
            each.running = answer.body.ifi_flags & IFF_RUNNING;
            each.loopback = answer.body.ifi_flags & IFF_LOOPBACK;
            each.resolves = !(answer.body.ifi_flags & IFF_NOARP);
            each.has_mac = answer.body.ifi_type == ARPHRD_ETHER && answer.copy(IFLA_ADDRESS, each.mac);
            out.push_back(std::move(each));
        });
    }
    for (Interface& each : out)
        if (each.up && !each.loopback) each.speed = link_speed(each.name);
    return error;
}

int Netlink::addresses(std::vector<Address>& out) {
    int error = EINTR;
    for (unsigned attempt = 0; attempt < kDumpAttempts && error == EINTR; attempt++) {
        out.clear();
        error = dump(RTM_GETADDR, [&](const nlmsghdr& message) {
            if (message.nlmsg_type != RTM_NEWADDR) return;
            Answer<ifaddrmsg> answer(message);
            Address each;
            // On a point-to-point link IFA_ADDRESS is the peer's.
            each.gid = answer.address(answer.has(IFA_LOCAL) ? IFA_LOCAL : IFA_ADDRESS);
            each.interface_index = answer.body.ifa_index;
            const std::uint32_t flags =
                answer.has(IFA_FLAGS) ? answer.number(IFA_FLAGS) : answer.body.ifa_flags;
            const bool tentative = (flags & IFA_F_TENTATIVE) && !(flags & IFA_F_OPTIMISTIC);
            each.usable = !tentative && !(flags & IFA_F_DADFAILED);
            each.temporary = answer.body.ifa_family == AF_INET6 && (flags & IFA_F_TEMPORARY);
            if (!each.gid.is_zero()) out.push_back(each);
        });
    }
    return error;
}

int Netlink::route(const Gid& destination, const Gid& source, std::uint32_t interface_index,
                   KernelRoute& out) {
    Message<rtmsg> request(RTM_GETROUTE, 0);
    request.body().rtm_family = destination.is_ipv4() ? AF_INET : AF_INET6;
    request.body().rtm_dst_len = destination.is_ipv4() ? 32 : 128;
    request.add_address(RTA_DST, destination);
    if (!source.is_zero()) {
        request.body().rtm_src_len = request.body().rtm_dst_len;
        request.add_address(RTA_SRC, source);
    }
    if (interface_index) request.add(RTA_OIF, interface_index);
    out = {};
    return ask(request.bytes.data(), [&](const nlmsghdr& message) {
        if (message.nlmsg_type != RTM_NEWROUTE) return;
        Answer<rtmsg> answer(message);
        out.interface_index = answer.number(RTA_OIF);
        out.source = answer.address(RTA_PREFSRC);
        out.next_hop = answer.has(RTA_GATEWAY) ? answer.address(RTA_GATEWAY) : destination;
        if (answer.has(RTA_VIA)) {  // an IPv4 route over an IPv6 gateway: family (2 bytes), address
            std::array<std::uint8_t, 18> via{};
            if (answer.copy(RTA_VIA, via)) std::memcpy(out.next_hop.bytes.data(), via.data() + 2, 16);
        }
        out.local = answer.body.rtm_type == RTN_LOCAL;
        out.multicast = answer.body.rtm_type == RTN_MULTICAST;
    });
}

NeighborState Netlink::neighbor(const Gid& address, std::uint32_t interface_index) {
    Message<ndmsg> request(RTM_GETNEIGH, 0);
    request.body().ndm_family = address.is_ipv4() ? AF_INET : AF_INET6;
    request.body().ndm_ifindex = static_cast<int>(interface_index);
    request.add_address(NDA_DST, address);
    NeighborState state = NeighborState::unknown;
    int error = ask(request.bytes.data(), [&](const nlmsghdr& message) {
        if (message.nlmsg_type != RTM_NEWNEIGH) return;
        Answer<ndmsg> answer(message);
        constexpr unsigned kValid =
            NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT | NUD_NOARP;
        if (answer.body.ndm_state & kValid)
            state = NeighborState::reachable;
        else
            state = answer.body.ndm_state & NUD_FAILED ? NeighborState::failed : NeighborState::resolving;
    });
    return error ? NeighborState::unknown : state;
}

int NetlinkMonitor::open() {
    return open_socket(RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR, socket_);
}

void NetlinkMonitor::drain() {
    std::array<std::uint8_t, 4096> buffer;
    // ENOBUFS says that notices were lost, which is a change like any other.
    while (recv(socket_.get(), buffer.data(), buffer.size(), 0) >= 0 || errno == EINTR || errno == ENOBUFS) {
    }
}

}  // namespace verbena::daemon
