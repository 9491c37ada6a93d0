// rsetsockopt and rgetsockopt. Buffer sizes and queue sizes count for the next connection; a connection keeps
// what it was made with, and refuses to change it (stream_settings.cpp).
#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/call_fault.h"
#include "base/reason.h"
#include "rsocket/stream.h"
#include "rsocket/table.h"

namespace verbena::rsocket {

namespace {

template <class Value>
bool read_value(Value& value, const void* from, socklen_t size) {
    if (size < sizeof value) return false;
    std::memcpy(&value, from, sizeof value);
    return true;
}

// As the kernel: cut to the room that there is.
template <class Value>
int give(const Value& value, void* to, socklen_t* size) {
    *size = std::min<socklen_t>(*size, sizeof value);
    std::memcpy(to, &value, *size);
    return 0;
}

Duration duration_of(const timeval& time) { return time.tv_sec * kSecond + time.tv_usec * kMicrosecond; }
timeval timeval_of(Duration duration) {
    return {duration / kSecond, static_cast<suseconds_t>(duration % kSecond / kMicrosecond)};
}

int unknown(int level, int option) {
    return fail(ENOPROTOOPT, "level %d has no option %d on rsockets", level, option);
}

std::uint16_t small(int value) { return static_cast<std::uint16_t>(std::clamp(value, 0, UINT16_MAX)); }

constexpr int kLeastBuffer = 4096, kMostBuffer = 1 << 28;

int set_socket_option(Settings& settings, int option, int value, const void* data, socklen_t size) {
    switch (option) {
        case SO_REUSEADDR:
            settings.reuse_address = value != 0;
            return 0;
        case SO_RCVBUF:
            settings.receive_buffer =
                static_cast<std::uint32_t>(std::clamp(value, kLeastBuffer, kMostBuffer)) & ~1u;
            return 0;
        case SO_SNDBUF:
            settings.send_buffer = static_cast<std::uint32_t>(std::clamp(value, kLeastBuffer, kMostBuffer));
            return 0;
        case SO_LINGER:
            return read_value(settings.lingering, data, size) ? 0
                                                              : fail(EINVAL, "a linger of %u bytes", size);
        case SO_KEEPALIVE:
            settings.keepalive = value != 0;
            return 0;
        case SO_OOBINLINE:
            settings.inline_urgent = value != 0;
            return 0;
        case SO_BROADCAST:
            settings.broadcast = value != 0;
            return 0;
        case SO_REUSEPORT:  // the connection manager shares no port among listeners
        case SO_PRIORITY:
        case SO_RCVLOWAT:
            return unknown(SOL_SOCKET, option);
        case SO_RCVTIMEO:
        case SO_SNDTIMEO: {
            timeval time{};
            if (!read_value(time, data, size)) return fail(EINVAL, "a time of %u bytes", size);
            if (time.tv_usec < 0 || time.tv_usec >= 1'000'000)
                return fail(EDOM, "%ld microseconds", time.tv_usec);
            (option == SO_RCVTIMEO ? settings.receive_timeout : settings.send_timeout) = duration_of(time);
            return 0;
        }
        default:
            return unknown(SOL_SOCKET, option);
    }
}

// The part that means something here; a window is a queue of messages.
int give_tcp_info(Stream& stream, void* to, socklen_t* size) {
    tcp_info info{};
    info.tcpi_state = stream.is_connected() ? TCP_ESTABLISHED : TCP_CLOSE;
    info.tcpi_snd_cwnd = stream.settings().send_queue;
    return give(info, to, size);
}

int set_tcp_option(Settings& settings, int option, int value) {
    auto positive = [&](int& setting, int most) {
        if (value < 1 || value > most) return fail(EINVAL, "%d is not between 1 and %d", value, most);
        setting = value;
        return 0;
    };
    switch (option) {
        case TCP_NODELAY:
            settings.no_delay = value != 0;
            return 0;
        case TCP_MAXSEG:
            settings.max_segment = value;
            return 0;
        case TCP_KEEPIDLE:
            return positive(settings.keepalive_idle, 32767);
        case TCP_KEEPINTVL:
            return positive(settings.keepalive_interval, 32767);
        case TCP_KEEPCNT:
            return positive(settings.keepalive_count, 127);
        case TCP_CONGESTION:  // a name; the queue pair's is not the socket's to choose
            return 0;
        default:
            return unknown(IPPROTO_TCP, option);
    }
}

int set_rdma_option(Socket& socket, Settings& settings, int option, int value, const void* data,
                    socklen_t size) {
    auto* stream = dynamic_cast<Stream*>(&socket);
    const bool settled = stream && stream->has_connection();
    switch (option) {
        case RDMA_SQSIZE:
        case RDMA_RQSIZE:
        case RDMA_INLINE:
        case RDMA_IOMAPSIZE:
            if (settled) return fail(EINVAL, "the connection exists: its queues have their sizes");
            if (value < 0) return fail(EINVAL, "a size of %d", value);
            break;
        case RDMA_ROUTE: {
            if (!stream || settled) return fail(EINVAL, "a route is set before a stream connects");
            if (size == 0 || size % sizeof(ibv_path_data) != 0)
                return fail(EINVAL, "%u bytes are no array of struct ibv_path_data", size);
            settings.route.resize(size / sizeof(ibv_path_data));
            std::memcpy(settings.route.data(), data, size);
            return 0;
        }
        default:
            return unknown(SOL_RDMA, option);
    }
    if (option == RDMA_SQSIZE) settings.send_queue = small(value);
    if (option == RDMA_RQSIZE) settings.receive_queue = small(value);
    if (option == RDMA_INLINE) settings.inline_data = std::min(small(value), kMostInline);
    if (option == RDMA_IOMAPSIZE)
        settings.map_entries =
            static_cast<std::uint16_t>(map_entries(map_scale(static_cast<unsigned>(value))));
    return 0;
}

int set_option(Socket& socket, int level, int option, const void* data, socklen_t size) {
    Settings settings = socket.settings();
    int value = 0, error = 0;
    const bool structured =
        (level == SOL_SOCKET && (option == SO_LINGER || option == SO_RCVTIMEO || option == SO_SNDTIMEO)) ||
        (level == IPPROTO_TCP && option == TCP_CONGESTION) || (level == SOL_RDMA && option == RDMA_ROUTE);
    if (!data) return fail(EFAULT, "the value is NULL");
    if (!structured && !read_value(value, data, size))
        return fail(EINVAL, "a value of %u bytes, an int is needed", size);
    switch (level) {
        case SOL_SOCKET:
            error = set_socket_option(settings, option, value, data, size);
            break;
        case IPPROTO_TCP:
            if (socket.type() != SOCK_STREAM) return fail(EOPNOTSUPP, "a TCP option of a datagram socket");
            error = set_tcp_option(settings, option, value);
            break;
        case IPPROTO_IP:
            if (option != IP_TOS) return unknown(level, option);
            settings.type_of_service = value & 0xff;
            break;
        case IPPROTO_IPV6:
            if (option == IPV6_V6ONLY && socket.domain() == AF_INET6)
                settings.only_v6 = value != 0;
            else if (option == IPV6_TCLASS)
                settings.type_of_service = settings.traffic_class = std::max(value, 0) & 0xff;
            else
                return unknown(level, option);
            break;
        case SOL_RDMA:
            error = set_rdma_option(socket, settings, option, value, data, size);
            break;
        default:
            return unknown(level, option);
    }
    return error ? error : socket.change(settings);
}

int get_socket_option(Socket& socket, const Settings& settings, int option, void* to, socklen_t* size) {
    auto* stream = dynamic_cast<Stream*>(&socket);
    switch (option) {
        case SO_REUSEADDR:
            return give<int>(settings.reuse_address, to, size);
        case SO_RCVBUF:
            return give(static_cast<int>(settings.receive_buffer), to, size);
        case SO_SNDBUF:
            return give(static_cast<int>(settings.send_buffer), to, size);
        case SO_LINGER:
            return give(settings.lingering, to, size);
        case SO_KEEPALIVE:
            return give<int>(settings.keepalive, to, size);
        case SO_OOBINLINE:
            return give<int>(settings.inline_urgent, to, size);
        case SO_BROADCAST:
            return give<int>(settings.broadcast, to, size);
        case SO_ERROR:
            return give(socket.take_error(), to, size);
        case SO_TYPE:
            return give(socket.type(), to, size);
        case SO_DOMAIN:
            return give(socket.domain(), to, size);
        case SO_PROTOCOL:
            return give<int>(socket.type() == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP, to, size);
        case SO_ACCEPTCONN:
            return give<int>(stream && stream->is_listening(), to, size);
        case SO_RCVTIMEO:
            return give(timeval_of(settings.receive_timeout), to, size);
        case SO_SNDTIMEO:
            return give(timeval_of(settings.send_timeout), to, size);
        default:
            return unknown(SOL_SOCKET, option);
    }
}

int get_tcp_option(Socket& socket, const Settings& settings, int option, void* to, socklen_t* size) {
    switch (option) {
        case TCP_NODELAY:
            return give<int>(settings.no_delay, to, size);
        case TCP_MAXSEG: {
            // What one packet carries: the path's MTU, an enumeration from 256 upwards.
            auto* stream = dynamic_cast<Stream*>(&socket);
            const auto paths = stream ? stream->route() : std::vector<ibv_path_data>{};
            int segment = settings.max_segment ? settings.max_segment : 2048;
            if (!paths.empty()) segment = 128 << (paths[0].path.mtu & 0x1f);
            return give(segment, to, size);
        }
        case TCP_KEEPIDLE:
            return give(settings.keepalive_idle, to, size);
        case TCP_KEEPINTVL:
            return give(settings.keepalive_interval, to, size);
        case TCP_KEEPCNT:
            return give(settings.keepalive_count, to, size);
        case TCP_INFO:
            return give_tcp_info(dynamic_cast<Stream&>(socket), to, size);
        default:
            return unknown(IPPROTO_TCP, option);
    }
}

int get_rdma_option(Socket& socket, const Settings& settings, int option, void* to, socklen_t* size) {
    switch (option) {
        case RDMA_SQSIZE:
            return give<int>(settings.send_queue, to, size);
        case RDMA_RQSIZE:
            return give<int>(settings.receive_queue, to, size);
        case RDMA_INLINE:
            return give<int>(settings.inline_data, to, size);
        case RDMA_IOMAPSIZE:
            return give<int>(settings.map_entries, to, size);
        case RDMA_ROUTE: {
            auto* stream = dynamic_cast<Stream*>(&socket);
            if (!stream) return fail(EOPNOTSUPP, "a datagram socket has no single route");
            const auto paths = stream->route();
            if (paths.empty()) return fail(ENODATA, "the route is not resolved");
            const std::size_t count = std::min(*size / sizeof(ibv_path_data), paths.size());
            *size = static_cast<socklen_t>(count * sizeof(ibv_path_data));
            std::memcpy(to, paths.data(), *size);
            return 0;
        }
        default:
            return unknown(SOL_RDMA, option);
    }
}

int get_option(Socket& socket, int level, int option, void* to, socklen_t* size) {
    if (!to || !size) return fail(EFAULT, "nowhere to put the value");
    const Settings settings = socket.settings();
    switch (level) {
        case SOL_SOCKET:
            return get_socket_option(socket, settings, option, to, size);
        case IPPROTO_TCP:
            if (socket.type() != SOCK_STREAM) return fail(EOPNOTSUPP, "a TCP option of a datagram socket");
            return get_tcp_option(socket, settings, option, to, size);
        case IPPROTO_IP:
            if (option == IP_TOS) return give(settings.type_of_service, to, size);
            return unknown(level, option);
        case IPPROTO_IPV6:
            if (option == IPV6_V6ONLY) return give<int>(settings.only_v6, to, size);
            if (option == IPV6_TCLASS) return give(settings.traffic_class, to, size);
            return unknown(level, option);
        case SOL_RDMA:
            return get_rdma_option(socket, settings, option, to, size);
        default:
            return unknown(level, option);
    }
}

}  // namespace
}  // namespace verbena::rsocket

using namespace verbena;
using namespace verbena::rsocket;

extern "C" {

int rsetsockopt(int fd, int level, int option, const void* value, socklen_t size) {
    if (const Fault fault{"rsetsockopt"}) return fault.minus_one();
    Call call("rsetsockopt");
    auto socket = socket_of(fd);
    if (!socket) return -1;
    const int error = set_option(*socket, level, option, value, size);
    if (error) errno = error;
    return error ? -1 : 0;
}

int rgetsockopt(int fd, int level, int option, void* value, socklen_t* size) {
    if (const Fault fault{"rgetsockopt"}) return fault.minus_one();
    Call call("rgetsockopt");
    auto socket = socket_of(fd);
    if (!socket) return -1;
    const int error = get_option(*socket, level, option, value, size);
    if (error) errno = error;
    return error ? -1 : 0;
}

}  // extern "C"
