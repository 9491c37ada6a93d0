// Receive sockets for multicast groups, one for each group on an interface, bound to both. They take no part
// in the steering of the sockets that are bound to all addresses: a kernel (6.6 and later, IPv4) that finds a
// single member asks the steering program whose packet it is, and a group's is nobody's. A membership ends
// with its process, which the steered sockets outlive; and no limit of memberships per socket is met.
//
// Thread safety: none, but for silence(): any thread.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/gid.h"
#include "link/udp_receive.h"

namespace verbena::link {

class GroupSockets {
   public:
    explicit GroupSockets(std::uint16_t port) : port_(port) {}
    ~GroupSockets();
    GroupSockets(const GroupSockets&) = delete;
    GroupSockets& operator=(const GroupSockets&) = delete;

    // 0 or errno with a reason.
    int join(const Gid& group, std::uint32_t interface_index);
    int leave(const Gid& group, std::uint32_t interface_index);
    // Every descriptor leads to the socket `nothing` from now on.
    void silence(int nothing);

    // An epoll set that is readable while a packet waits; -1 before the first join.
    int wait_fd() const { return wait_fd_; }
    unsigned receive(UdpReader& reader, Receiver& receiver, unsigned max);

   private:
    struct Member {
        Gid group;
        std::uint32_t interface_index;
        int fd;
    };

    const std::uint16_t port_;
    int wait_fd_ = -1;
    std::mutex lock_;  // of the members, against silence()
    std::vector<Member> members_;
};

}  // namespace verbena::link
