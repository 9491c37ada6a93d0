#include "link/socket_options.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <cstring>

#include "base/own_socket.h"
#include "base/reason.h"
#include "wire/path.h"

#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif
#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif

namespace verbena::link {
namespace {

struct Option {
    int level, name, value;
    const char* text;
    bool required;
};

int set_option(int fd, const Option& option) {
    if (setsockopt(fd, option.level, option.name, &option.value, sizeof option.value) == 0) return 0;
    if (!option.required) {
        log(LogLevel::debug, "setsockopt(%s): %s", option.text, std::strerror(errno));
        return 0;
    }
    return fail(errno, "setsockopt(%s): %s", option.text, std::strerror(errno));
}

template <std::size_t n>
int set_options(int fd, const Option (&options)[n]) {
    for (const Option& option : options)
        if (int error = set_option(fd, option)) return error;
    return 0;
}

constexpr int kLargestBuffer = 64 << 20;  // the kernel cuts it to net.core.rmem_max or wmem_max
// With CAP_NET_ADMIN, whatever rmem_max says: a UC message of 8 MiB fits while its receiver waits for a
// processor.
constexpr int kForcedBuffer = 16 << 20;

}  // namespace

int open_receive_socket(int type) {
    const int fd = own_socket(AF_INET6, SOCK_DGRAM | type);
    return fd < 0 && is_refusal(errno) ? own_socket(AF_INET, SOCK_DGRAM | type) : fd;
}

int family_of(int fd) {
    int family = AF_INET6;
    socklen_t size = sizeof family;
    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size);
    return family;
}

int prepare_receive_socket(int fd, bool gro) {
    static constexpr Option kBoth[] = {
        {IPPROTO_IPV6, IPV6_V6ONLY, 0, "IPV6_V6ONLY", true},
        {IPPROTO_UDP, UDP_NO_CHECK6_RX, 1, "UDP_NO_CHECK6_RX", false},
        {IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0, "IPV6_MULTICAST_ALL", false},
        {IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO, "IPV6_MTU_DISCOVER", false},
        {IPPROTO_IPV6, IPV6_RECVPKTINFO, 1, "IPV6_RECVPKTINFO", true},
        {IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1, "IPV6_RECVHOPLIMIT", false},
        {IPPROTO_IPV6, IPV6_RECVTCLASS, 1, "IPV6_RECVTCLASS", false},
    };
    static constexpr Option kIpv4Alone[] = {{IPPROTO_IP, IP_PKTINFO, 1, "IP_PKTINFO", true}};
    static constexpr Option kIpv4[] = {
        {IPPROTO_IP, IP_MULTICAST_ALL, 0, "IP_MULTICAST_ALL", false},
        {IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO, "IP_MTU_DISCOVER", false},
        {IPPROTO_IP, IP_RECVTTL, 1, "IP_RECVTTL", false},
        {IPPROTO_IP, IP_RECVTOS, 1, "IP_RECVTOS", false},
    };
    if (int error = family_of(fd) == AF_INET ? set_options(fd, kIpv4Alone) : set_options(fd, kBoth))
        return error;
    if (int error = set_options(fd, kIpv4)) return error;
    if (int error = enlarge_receive_buffer(fd)) return error;
    return set_option(fd, {IPPROTO_UDP, UDP_GRO, gro ? 1 : 0, "UDP_GRO", false});
}

int enlarge_receive_buffer(int fd) {
    if (int error = set_option(fd, {SOL_SOCKET, SO_RCVBUF, kLargestBuffer, "SO_RCVBUF", true})) return error;
    if (receive_buffer(fd) >= 2 * std::size_t{kForcedBuffer})
        return 0;  // the kernel counts twice what is asked for
    return set_option(fd, {SOL_SOCKET, SO_RCVBUFFORCE, kForcedBuffer, "SO_RCVBUFFORCE", false});
}

int prepare_send_socket(int fd, int family) {
    if (family == AF_INET) {
        static constexpr Option kOptions[] = {
            {IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO, "IP_MTU_DISCOVER", true},
            {IPPROTO_IP, IP_TTL, wire::kDefaultHopLimit, "IP_TTL", true},
            {IPPROTO_IP, IP_MULTICAST_TTL, wire::kDefaultHopLimit, "IP_MULTICAST_TTL", true},
        };
        if (int error = set_options(fd, kOptions)) return error;
    } else {
        static constexpr Option kOptions[] = {
            {IPPROTO_IPV6, IPV6_V6ONLY, 1, "IPV6_V6ONLY", true},
            {IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO, "IPV6_MTU_DISCOVER", true},
            {IPPROTO_IPV6, IPV6_UNICAST_HOPS, wire::kDefaultHopLimit, "IPV6_UNICAST_HOPS", true},
            {IPPROTO_IPV6, IPV6_MULTICAST_HOPS, wire::kDefaultHopLimit, "IPV6_MULTICAST_HOPS", true},
        };
        if (int error = set_options(fd, kOptions)) return error;
    }
    // Nobody reads from it, and two processes may use one port: replies never come to it.
    static constexpr Option kCommon[] = {
        {SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR", true},
        {SOL_SOCKET, SO_RCVBUF, 0, "SO_RCVBUF", false},
        {SOL_SOCKET, SO_SNDBUF, kLargestBuffer, "SO_SNDBUF", false},
    };
    if (int error = set_options(fd, kCommon)) return error;
    const timeval timeout{0, kSendTimeoutMilliseconds * 1000};
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) != 0)
        return fail(errno, "setsockopt(SO_SNDTIMEO): %s", std::strerror(errno));
    return 0;
}

bool kernel_has_segmentation(int fd) {
    const int off = 0;
    return setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &off, sizeof off) == 0;
}

std::size_t receive_buffer(int fd) {
    int value = 0;
    socklen_t size = sizeof value;
    if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, &size) != 0 || value < 0) return 0;
    return static_cast<std::size_t>(value);
}

}  // namespace verbena::link
