#include "link/group_sockets.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/features.h"
#include "base/own_file.h"
#include "base/own_socket.h"
#include "base/reason.h"
#include "base/socket_address.h"
#include "base/uncancelled.h"
#include "link/socket_options.h"

#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif

namespace verbena::link {
namespace {

int join_with(int fd, const Gid& group, std::uint32_t interface_index) {
    int result;
    if (group.is_ipv4()) {
        ip_mreqn request{};
        request.imr_multiaddr.s_addr = htonl(group.ipv4());
        request.imr_ifindex = static_cast<int>(interface_index);
        result = setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request);
    } else {
        ipv6_mreq request{};
        std::memcpy(&request.ipv6mr_multiaddr, group.bytes.data(), 16);
        request.ipv6mr_interface = interface_index;
        result = setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &request, sizeof request);
    }
    if (result == 0) return 0;
    return fail(errno, "joining group %s: %s", to_string(group).c_str(), std::strerror(errno));
}

int bind_to(int fd, const Gid& group, std::uint32_t interface_index, std::uint16_t port) {
    const int on = 1;
    const int interface = static_cast<int>(interface_index);
    const SocketAddress address(group, port, interface_index);
    // Old kernels do not let everybody bind to an interface; the membership is for one in any case.
    if (setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &interface, sizeof interface) != 0)
        log(LogLevel::debug, "setsockopt(SO_BINDTOIFINDEX): %s", std::strerror(errno));
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0 &&
        bind(fd, address.get(), address.size()) == 0)
        return 0;
    return fail(errno, "binding a socket to group %s: %s", to_string(group).c_str(), std::strerror(errno));
}

int open_socket(const Gid& group, std::uint32_t interface_index, std::uint16_t port, int& fd) {
    fd = own_socket(group.is_ipv4() ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK);
    if (fd < 0)
        return fail(errno, "a socket for group %s: %s", to_string(group).c_str(), std::strerror(errno));
    int error = prepare_receive_socket(fd, features().gro);
    if (!error) error = bind_to(fd, group, interface_index, port);
    if (!error) error = join_with(fd, group, interface_index);
    if (error) close(fd);
    return error;
}

}  // namespace

GroupSockets::~GroupSockets() {
    for (const Member& member : members_) close(member.fd);
    if (wait_fd_ >= 0) close(wait_fd_);
}

int GroupSockets::join(const Gid& group, std::uint32_t interface_index) {
    if (wait_fd_ < 0) wait_fd_ = out_of_the_way(epoll_create1(EPOLL_CLOEXEC));
    if (wait_fd_ < 0) return fail(errno, "epoll_create1: %s", std::strerror(errno));
    {
        std::lock_guard guard(lock_);
        members_.reserve(members_.size() + 1);
    }
    int fd = -1;
    if (int error = open_socket(group, interface_index, port_, fd)) return error;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (epoll_ctl(wait_fd_, EPOLL_CTL_ADD, fd, &event) != 0) {
        const int error = fail(errno, "epoll_ctl: %s", std::strerror(errno));
        close(fd);
        return error;
    }
    std::lock_guard guard(lock_);
    members_.push_back({group, interface_index, fd});
    return 0;
}

int GroupSockets::leave(const Gid& group, std::uint32_t interface_index) {
    std::lock_guard guard(lock_);
    const auto found = std::ranges::find_if(members_, [&](const Member& member) {
        return member.group == group && member.interface_index == interface_index;
    });
    if (found == members_.end()) return fail(EINVAL, "group %s was not joined", to_string(group).c_str());
    close(found->fd);
    members_.erase(found);
    return 0;
}

void GroupSockets::silence(int nothing) {
    std::lock_guard guard(lock_);
    for (const Member& member : members_) dup3(nothing, member.fd, O_CLOEXEC);
}

unsigned GroupSockets::receive(UdpReader& reader, Receiver& receiver, unsigned max) {
    if (wait_fd_ < 0) return 0;
    std::array<epoll_event, 16> ready;
    const int count = uncancelled::epoll_at_once(wait_fd_, ready.data(), static_cast<int>(ready.size()));
    unsigned received = 0;
    for (int i = 0; i < count && received < max; i++)
        received += reader.read(ready[static_cast<std::size_t>(i)].data.fd, receiver, max - received);
    return received;
}

}  // namespace verbena::link
