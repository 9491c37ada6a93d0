#include "link/source_ports.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/own_socket.h"
#include "base/reason.h"
#include "base/socket_address.h"
#include "link/socket_options.h"
#include "wire/path.h"

namespace verbena::link {
namespace {

// The wanted port, else another of the range that RoCE v2 leaves to senders (annex A17.9.2). 0: none is free.
std::uint16_t bind_near(int fd, int family, std::uint16_t wanted) {
    constexpr unsigned kRange = 0x10000 - wire::kFirstUdpSourcePort;
    constexpr unsigned kTries = 256;
    constexpr unsigned kStride = 613;  // odd, so that all of the range is reachable
    for (unsigned i = 0; i < kTries; i++) {
        auto port = static_cast<std::uint16_t>(wire::kFirstUdpSourcePort + (wanted + i * kStride) % kRange);
        const SocketAddress address(any_address(family), port);
        if (bind(fd, address.get(), address.size()) == 0) return port;
        if (errno != EADDRINUSE) break;
    }
    return 0;
}

}  // namespace

SourcePorts::~SourcePorts() {
    for (Family& family : families_)
        for (unsigned i = 0; i < family.count.load(std::memory_order_relaxed); i++)
            close(family.entries[i].fd);
}

const SourcePorts::Family::Entry* SourcePorts::look_up(const Family& family, std::uint16_t wanted) {
    const unsigned count = family.count.load(std::memory_order_acquire);
    for (unsigned i = 0; i < count; i++)
        if (family.entries[i].wanted == wanted) return &family.entries[i];
    if (count == kPerFamily) return &family.entries[wanted % kPerFamily];
    return nullptr;
}

SourcePorts::Source SourcePorts::find(bool ipv4, std::uint16_t wanted) {
    Family& family = families_[ipv4 ? 0 : 1];
    if (const Family::Entry* entry = look_up(family, wanted)) return {entry->fd, entry->port};
    return open(family, ipv4, wanted);
}

int SourcePorts::provide(bool ipv4, std::uint16_t wanted) {
    if (families_[ipv4 ? 0 : 1].count.load(std::memory_order_acquire) > 0 || find(ipv4, wanted).fd >= 0)
        return 0;
    std::lock_guard guard(lock_);
    const bool lacks = last_error_ == EMFILE || last_error_ == ENFILE || last_error_ == ENOMEM;
    return lacks ? fail(last_error_, "no socket to send from: %s", std::strerror(last_error_)) : 0;
}

SourcePorts::Source SourcePorts::open(Family& family, bool ipv4, std::uint16_t wanted) {
    std::lock_guard guard(lock_);
    if (const Family::Entry* entry = look_up(family, wanted)) return {entry->fd, entry->port};

    const unsigned count = family.count.load(std::memory_order_relaxed);
    const int domain = ipv4 ? AF_INET : AF_INET6;
    const int fd = own_socket(domain, SOCK_DGRAM);
    std::uint16_t port = 0;
    if (fd >= 0 && prepare_send_socket(fd, domain) == 0) port = bind_near(fd, domain, wanted);
    if (port == 0) {
        if (std::exchange(last_error_, errno) != errno)
            log(LogLevel::warn, "no socket to send %s packets from: %s", ipv4 ? "IPv4" : "IPv6",
                std::strerror(errno));
        if (fd >= 0) close(fd);
        if (count == 0) return {};
        return {family.entries[0].fd, family.entries[0].port};
    }
    family.entries[count] = {wanted, port, fd};
    family.count.store(count + 1, std::memory_order_release);
    return {fd, port};
}

}  // namespace verbena::link
