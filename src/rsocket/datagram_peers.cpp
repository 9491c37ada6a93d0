// How a datagram socket reaches its peers: devices, address handles, and the exchange of queue pair numbers
// over UDP.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/reason.h"
#include "base/route_socket.h"
#include "rsocket/datagram.h"

namespace verbena::rsocket {
namespace {

constexpr std::size_t kMostWaiting = 384;  // datagrams from UDP that nobody reads
constexpr int kAtOnce = 64;                // then the service looks after its other sockets

}  // namespace

Address Datagram::to_kernel(const Endpoint& endpoint) const {
    const Address address(endpoint);
    return domain_ == AF_INET6 ? address.mapped() : address;
}

// A link-local address without its interface is on the one that the socket is bound to, if there is one.
Endpoint Datagram::destination_of(const Address& to) const {
    Endpoint destination = to.unmapped().endpoint();
    if (to.is_link_local() && destination.scope == 0)
        destination.scope = Address::of_socket(udp_fd_, domain_).endpoint().scope;
    return destination;
}

// Our address towards a peer: the one that the socket is bound to, or the kernel's choice. An errno.
int Datagram::source_towards(const Address& destination, Endpoint& source) const {
    Address from = Address::of_socket(udp_fd_, domain_).unmapped();
    if (from.is_any()) {
        const RouteSocket route(destination.gid(), destination.endpoint().scope);
        if (int error = route.error())
            return fail(error, "no route to %s: %s", to_string(destination.gid()).c_str(),
                        std::strerror(error));
        from = Address::of_socket(route.fd(), destination.family());
    }
    if (from.family() != destination.family())
        return fail(EINVAL, "source and destination are of different address families");
    from.set_port(0);  // it counts on the UDP socket; the manager's ports are others
    source = from.endpoint();
    return 0;
}

int Datagram::port_at(const Endpoint& source, DatagramPort*& found) {
    for (auto& port : ports_)
        if (port->source() == source) {
            found = port.get();
            return 0;
        }
    auto fresh = std::make_unique<DatagramPort>(source);
    if (int error = fresh->create(settings_)) return error;
    if (int error = watch(fresh->completions().fd(), EPOLL_CTL_ADD)) return error;
    fresh->completions().arm();  // whoever polls the descriptor waits for this queue from now on
    found = fresh.get();
    ports_.push_back(std::move(fresh));
    nudge();
    return 0;
}

Peer* Datagram::peer_of(const Endpoint& destination, Speaker speaker) {
    if (Peer* found = peers_.find(destination, speaker)) return found;
    const Address to(destination);
    Endpoint source;
    Peer fresh;
    DatagramPort* port = nullptr;
    int error = source_towards(to, source);
    if (error == 0) error = port_at(source, port);
    if (error == 0) error = port->reach(to, fresh);
    if (error) {
        errno = error;
        return nullptr;
    }
    return &peers_.add(destination, std::move(fresh), speaker);
}

ssize_t Datagram::send_udp(const Endpoint& destination, const Peer& peer, Cursor data,
                           UdpOperation operation) const {
    std::array<std::uint8_t, kMaxUdpHeader> header;
    UdpHeader fields{operation, peer.port->qpn(), peer.port->source(), 0};
    const std::size_t header_size = encode_udp_header(fields, header);
    std::vector<std::uint8_t> message(header_size + data.left());
    std::copy_n(header.begin(), header_size, message.begin());
    const std::size_t size = data.left();
    if (size > 0) data.copy_out(&message[header_size], size);
    const Address to = to_kernel(destination);
    const ssize_t sent =
        ::sendto(udp_fd_, message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL, to.get(), to.length());
    if (sent < 0) return errno == EAGAIN ? -1 : fail_minus_one(errno, "over UDP: %s", std::strerror(errno));
    return static_cast<ssize_t>(size);
}

void Datagram::descriptor_ready() {
    std::vector<std::uint8_t> bytes(65536);
    for (int i = 0; i < kAtOnce; i++) {
        sockaddr_storage from{};
        socklen_t length = sizeof from;
        auto* address = static_cast<sockaddr*>(static_cast<void*>(&from));
        const ssize_t size = recvfrom(udp_fd_, bytes.data(), bytes.size(), MSG_DONTWAIT, address, &length);
        if (size < 0) return;
        Address source;
        if (source.assign(address, length) == 0)
            udp_arrived(std::span(bytes).first(static_cast<std::size_t>(size)), source);
    }
}

// In the service's thread. Data is delivered, and answered with our QPN; both tell the peer's. An answer
// from somebody who was sent nothing, and what a connected socket does not take, are nobody's business.
void Datagram::udp_arrived(std::span<const std::uint8_t> bytes, const Address& from) {
    const auto header = decode_udp_header(bytes);
    if (!header) return;
    const Endpoint source = from.unmapped().endpoint();
    Lock lock(mutex_);
    if (closed_) return;
    const bool is_data = header->operation == UdpOperation::data;
    Peer* const peer =
        is_data && wanted(source) ? peer_of(source, Speaker::peer) : peers_.find(source, Speaker::peer);
    if (!peer) return;
    peer->qpn = header->qpn;
    if (!is_data) {
        nudge();
        return;
    }
    // First: what the peer sends by the queue pair, once it has the answer, comes after this.
    if (wanted(source) && arrived_.size() < kMostWaiting) {
        Arrived arrived;
        arrived.copy.assign(bytes.begin(), bytes.end());
        arrived.header = header->size;
        arrived.source = source;
        arrived_.push_back(std::move(arrived));
        nudge();
    }
    send_udp(source, *peer, Cursor({}), UdpOperation::control);
}

}  // namespace verbena::rsocket
