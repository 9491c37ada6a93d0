// The kernel's way to an address. Connecting a datagram socket asks exactly that and sends nothing.
//
// Thread safety: all calls.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/gid.h"
#include "base/own_socket.h"
#include "base/socket_address.h"

namespace verbena {

class RouteSocket {
   public:
    RouteSocket(const Gid& destination, std::uint32_t interface_index) {
        const SocketAddress to(destination, kPort, interface_index);
        fd_ = own_socket(to.get()->sa_family, SOCK_DGRAM);
        if (fd_ < 0 || connect(fd_, to.get(), to.size()) != 0) error_ = errno;
    }
    ~RouteSocket() {
        if (fd_ >= 0) close(fd_);
    }
    RouteSocket(const RouteSocket&) = delete;
    RouteSocket& operator=(const RouteSocket&) = delete;

    bool asked() const { return fd_ >= 0; }  // otherwise the error says why there is no socket
    int error() const { return error_; }     // 0: there is a way
    int fd() const { return fd_; }

   private:
    static constexpr std::uint16_t kPort = 4791;  // RoCE v2's; as good as any other for the question

    int fd_, error_ = 0;
};

}  // namespace verbena
