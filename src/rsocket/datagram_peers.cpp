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
#include "rsocket/datagram.h"

namespace verbena::rsocket {
namespace {

constexpr int kResolveMs = 2'000;
constexpr std::size_t kMostWaiting = 384;  // datagrams from UDP that nobody reads

// The id of a synchronous conversation, destroyed at the end unless it is kept.
struct Resolved {
    ~Resolved() {
        if (id) rdma_destroy_id(id);
    }
    rdma_cm_id* id = nullptr;
};

std::optional<ibv_gid_entry> find_gid(ibv_context* context, std::uint8_t port, const ibv_gid& wanted) {
    ibv_port_attr attributes{};
    if (ibv_query_port(context, port, &attributes) != 0) return {};
    for (int i = 0; i < attributes.gid_tbl_len; i++) {
        ibv_gid_entry entry{};
        if (ibv_query_gid_ex(context, port, static_cast<std::uint32_t>(i), &entry, 0) == 0 &&
            std::memcmp(&entry.gid, &wanted, sizeof wanted) == 0)
            return entry;
    }
    return {};
}

}  // namespace

Address Datagram::to_kernel(const Endpoint& endpoint) const {
    const Address address(endpoint);
    return domain_ == AF_INET6 ? address.mapped() : address;
}

// A link-local address without its interface is on the one that the socket is bound to, if there is one.
Endpoint Datagram::destination_of(const Address& to) const {
    Endpoint destination = to.unmapped().endpoint();
    if (to.is_link_local() && destination.scope == 0) {
        Address local;
        local_address_locked(local);
        destination.scope = local.endpoint().scope;
    }
    return destination;
}

DatagramPort* Datagram::port_on(rdma_cm_id* id) {
    for (auto& port : ports_)
        if (port->context() == id->verbs) return port.get();
    return nullptr;
}

// Finds the way to a peer: our address, which is the one that the socket is bound to, our device and its
// queue pair, an address handle. Asks the connection manager, without the lock.
int Datagram::reach(Lock& lock, const Endpoint& destination, Peer& peer) {
    Address from;
    local_address_locked(from);
    from = from.unmapped();
    from.set_port(0);  // it counts on the UDP socket; the manager's ports are others
    lock.unlock();
    Resolved resolved;
    auto resolve = [&]() -> int {
        if (rdma_create_id(nullptr, &resolved.id, nullptr, RDMA_PS_UDP) != 0) return errno;
        Address to(destination);
        sockaddr* const source = from.is_any() ? nullptr : from.get();
        if (rdma_resolve_addr(resolved.id, source, to.get(), kResolveMs) != 0) return errno;
        if (rdma_resolve_route(resolved.id, kResolveMs) != 0) return errno;
        return 0;
    };
    const int error = resolve();
    lock.lock();
    if (error) return error;
    if (closed_) return fail(EBADF, "the socket was closed");

    rdma_cm_id* id = resolved.id;
    ibv_ah_attr attributes{};
    attributes.is_global = 1;
    attributes.port_num = id->port_num;
    attributes.grh.dgid = id->route.addr.addr.ibaddr.dgid;
    const auto gid = find_gid(id->verbs, id->port_num, id->route.addr.addr.ibaddr.sgid);
    if (!gid) return fail(EADDRNOTAVAIL, "the source address is no GID of the device any more");
    attributes.grh.sgid_index = static_cast<std::uint8_t>(gid->gid_index);
    attributes.grh.hop_limit = 64;
    Address source;
    source.assign(rdma_get_local_addr(id), destination.family);
    ibv_port_attr port_attributes{};
    if (int failed = ibv_query_port(id->verbs, id->port_num, &port_attributes)) return failed;
    int mtu = port_attributes.active_mtu;
    if (id->route.path_rec) mtu = std::min<int>(mtu, id->route.path_rec->mtu);

    DatagramPort* port = port_on(id);
    if (!port) {
        auto fresh = std::make_unique<DatagramPort>(std::exchange(resolved.id, nullptr), gid->ndev_ifindex);
        if (int failed = fresh->create(settings_)) return failed;
        if (int failed = watch(fresh->completions().fd(), EPOLL_CTL_ADD)) return failed;
        port = fresh.get();
        port->completions().arm();  // whoever polls the descriptor waits for this queue from now on
        ports_.push_back(std::move(fresh));
        nudge();
    }
    ibv_ah* handle = ibv_create_ah(port->pd(), &attributes);
    if (!handle) return errno;
    if (peer.handle) ibv_destroy_ah(peer.handle);
    peer.handle = handle;
    peer.port = port;
    peer.source = source.endpoint();
    peer.largest = std::min<std::uint32_t>(kSlot, 128u << mtu);
    return 0;
}

Datagram::Peer* Datagram::peer_of(Lock& lock, const Endpoint& destination) {
    auto found = peers_.find(destination);
    if (found != peers_.end()) return &found->second;
    Peer fresh;
    if (int error = reach(lock, destination, fresh)) {
        errno = error;
        return nullptr;
    }
    auto [place, mine] = peers_.try_emplace(destination, fresh);
    if (!mine) ibv_destroy_ah(fresh.handle);  // another thread was faster
    return &place->second;
}

ssize_t Datagram::send_udp(const Endpoint& destination, const Peer& peer, Cursor data, int flags,
                           UdpOperation operation) {
    std::array<std::uint8_t, kMaxUdpHeader> header;
    UdpHeader fields{operation, peer.port->qpn(), peer.source, 0};
    const std::size_t header_size = encode_udp_header(fields, header);
    std::vector<std::uint8_t> message(header_size + data.left());
    std::copy_n(header.begin(), header_size, message.begin());
    const std::size_t size = data.left();
    if (size > 0) data.copy_out(&message[header_size], size);
    const Address to = to_kernel(destination);
    const ssize_t sent =
        ::sendto(udp_fd_, message.data(), message.size(), flags | MSG_NOSIGNAL, to.get(), to.length());
    if (sent < 0) return errno == EAGAIN ? -1 : fail_minus_one(errno, "over UDP: %s", std::strerror(errno));
    return static_cast<ssize_t>(size);
}

void Datagram::descriptor_ready() {
    std::vector<std::uint8_t> bytes(65536);
    for (;;) {
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

// In the service's thread. The peer's QPN is learned; data is answered with ours, and delivered.
void Datagram::udp_arrived(std::span<const std::uint8_t> bytes, const Address& from) {
    const auto header = decode_udp_header(bytes);
    if (!header) return;
    const Endpoint source = from.unmapped().endpoint();
    Lock lock(mutex_);
    if (closed_) return;
    Peer* peer = peer_of(lock, source);
    if (!peer) return;
    peer->qpn = header->qpn;
    if (header->operation != UdpOperation::data) {
        nudge();
        return;
    }
    send_udp(source, *peer, Cursor({}), MSG_DONTWAIT, UdpOperation::control);
    if (!wanted(source) || arrived_.size() >= kMostWaiting) return;
    Arrived arrived;
    arrived.copy.assign(bytes.begin(), bytes.end());
    arrived.header = header->size;
    arrived.source = source;
    arrived_.push_back(std::move(arrived));
    nudge();
}

}  // namespace verbena::rsocket
