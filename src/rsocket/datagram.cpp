#include "rsocket/datagram.h"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/own_socket.h"
#include "base/reason.h"

namespace verbena::rsocket {
namespace {

constexpr Duration kDelivery = kSecond;  // what a close waits at most for sends under way
constexpr std::size_t kMostUdp = 65507 - kMaxUdpHeader;

}  // namespace

Datagram::~Datagram() {
    if (udp_fd_ >= 0) ::close(udp_fd_);
}

int Datagram::open_udp() {
    udp_fd_ = own_socket(domain_, SOCK_DGRAM);
    return udp_fd_ < 0 ? fail(errno, "no UDP socket: %s", std::strerror(errno)) : 0;
}

// From here on the service reads what comes over UDP.
int Datagram::ensure_watched() {
    if (watched_) return 0;
    const auto self = std::static_pointer_cast<Datagram>(shared_from_this());
    if (int error = service_.watch(udp_fd_, self)) return error;
    watched_ = true;
    return 0;
}

int Datagram::ensure_bound() {
    if (bound_) return 0;
    if (int error = ensure_watched()) return error;
    const Address any = Address::any(domain_);
    if (Address::of_socket(udp_fd_, domain_).port() == 0 && ::bind(udp_fd_, any.get(), any.length()) != 0)
        return fail(errno, "binding: %s", std::strerror(errno));
    bound_ = true;
    return 0;
}

int Datagram::bind(const Address& address) {
    Lock lock(mutex_);
    if (settings_.reuse_address) {
        int on = 1;
        setsockopt(udp_fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    }
    if (domain_ == AF_INET6) {
        int only = settings_.only_v6;
        setsockopt(udp_fd_, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
    }
    if (int error = ensure_watched()) {
        errno = error;
        return -1;
    }
    if (::bind(udp_fd_, address.get(), address.length()) != 0)
        return fail_minus_one(errno, "binding to port %u: %s", address.port(), std::strerror(errno));
    bound_ = true;
    return 0;
}

int Datagram::listen(int) { return fail_minus_one(EOPNOTSUPP, "a datagram socket does not listen"); }
std::shared_ptr<Socket> Datagram::accept() {
    return fail_null(EOPNOTSUPP, "a datagram socket accepts nothing");
}

int Datagram::connect(const Address& address) {
    Lock lock(mutex_);
    if (address.family() != domain_)
        return fail_minus_one(EAFNOSUPPORT, "an address of family %d for a socket of family %d",
                              address.family(), domain_);
    if (int error = ensure_bound()) {
        errno = error;
        return -1;
    }
    const Endpoint destination = destination_of(address);
    if (!peer_of(destination, Speaker::program)) return -1;
    peer_ = destination;
    return 0;
}

bool Datagram::progress() {
    const std::size_t before = arrived_.size();
    for (auto& port : ports_) {
        scratch_.clear();
        port->poll(scratch_);
        for (const auto& received : scratch_) {
            auto header = decode_datagram_header(port->bytes(received));
            if (header && Address(header->source).is_link_local()) header->source.scope = port->interface();
            if (!header || !wanted(header->source)) {
                port->repost(received.slot);
                continue;
            }
            arrived_.push_back({port.get(), received, {}, header->source, header->size});
        }
    }
    return arrived_.size() != before;
}

std::span<const std::uint8_t> Datagram::bytes(const Arrived& arrived) const {
    const std::span<const std::uint8_t> whole =
        arrived.port ? arrived.port->bytes(arrived.slot) : std::span<const std::uint8_t>(arrived.copy);
    return whole.subspan(arrived.header);
}

void Datagram::drop(const Arrived& arrived) {
    if (arrived.port) arrived.port->repost(arrived.slot.slot);
}

// Looks, and sleeps if it may: 0, EAGAIN or EINTR.
template <class Condition>
int Datagram::wait(Lock& lock, bool blocking, Time deadline, Condition holds) {
    progress();
    if (holds()) return 0;
    if (!blocking) return EAGAIN;
    Sleeper sleeper;
    if (int error = sleeper.prepare_or_nap()) return error;
    for (;;) {
        int error = 0;
        {
            const Registration registration(*this, sleeper);
            for (auto& port : ports_) port->completions().arm();
            progress();
            if (!holds()) {
                ibv_context* context = ports_.empty() ? nullptr : ports_.front()->context();
                lock.unlock();
                error = sleeper.sleep(context, fd(), deadline);
                lock.lock();
            }
        }
        empty_descriptors(&sleeper);
        progress();
        if (holds()) return 0;
        if (error) return error == ETIMEDOUT ? EAGAIN : error;
    }
}

// Sleeps until the kernel may have room for a datagram, or something else has changed.
int Datagram::wait_for_udp(Lock& lock, Time deadline) {
    Sleeper sleeper;
    if (int error = sleeper.prepare_or_nap()) return error;
    const Registration registration(*this, sleeper);
    lock.unlock();
    const int error = sleeper.sleep(nullptr, udp_fd_, deadline, EPOLLOUT);
    lock.lock();
    return error == ETIMEDOUT ? EAGAIN : error;
}

ssize_t Datagram::send(Cursor data, int flags, const Address* to) {
    Lock lock(mutex_);
    if (flags & MSG_OOB) return fail_minus_one(EOPNOTSUPP, "datagrams are never urgent");
    if (shut_write_) return fail_minus_one(EPIPE, "the socket was shut down for sending");
    if (!to && !peer_)
        return fail_minus_one(EDESTADDRREQ, "the socket is not connected, and no address was given");
    if (data.left() > kMostUdp)
        return fail_minus_one(EMSGSIZE, "%zu bytes, at most %zu", data.left(), kMostUdp);
    if (int error = ensure_bound()) {
        errno = error;
        return -1;
    }
    const Endpoint destination = to ? destination_of(*to) : *peer_;
    const std::size_t size = data.left();
    const Time deadline = settings_.send_timeout > 0 ? now() + settings_.send_timeout : kNever;
    Peer* peer = nullptr;
    for (;;) {
        peer = peer_of(destination, Speaker::program);
        if (!peer) return -1;
        int error = 0;
        if (peer->qpn == 0 || size + kMaxDatagramHeader > peer->largest) {
            const ssize_t sent = send_udp(destination, *peer, data, UdpOperation::data);
            if (sent >= 0 || errno != EAGAIN || !blocks(flags)) return sent;
            error = wait_for_udp(lock, deadline);
        } else {
            DatagramPort& port = *peer->port;
            if (port.can_send()) break;
            error = wait(lock, blocks(flags), deadline, [&] { return port.can_send() || closed_; });
        }
        if (closed_) return fail_minus_one(EBADF, "the socket was closed");
        if (error) {
            errno = error;
            return -1;
        }
    }
    DatagramPort& port = *peer->port;
    std::uint8_t* slot = port.send_slot();
    Endpoint source = port.source();
    source.port = Address::of_socket(udp_fd_, domain_).port();
    const std::size_t header =
        encode_datagram_header(source, std::span<std::uint8_t, kMaxDatagramHeader>(slot, kMaxDatagramHeader));
    data.copy_out(slot + header, size);
    if (int error =
            port.post_send(slot, static_cast<std::uint32_t>(header + size), peer->handle.get(), peer->qpn)) {
        errno = error;
        return -1;
    }
    return static_cast<ssize_t>(size);
}

ssize_t Datagram::receive(Cursor room, int flags, Address* from, int* out_flags) {
    if (flags & MSG_OOB) return fail_minus_one(EOPNOTSUPP, "datagrams are never urgent");
    Lock lock(mutex_);
    const Time deadline = settings_.receive_timeout > 0 ? now() + settings_.receive_timeout : kNever;
    if (arrived_.empty())
        if (int error = wait(lock, blocks(flags), deadline,
                             [&] { return !arrived_.empty() || shut_read_ || closed_; })) {
            errno = error;
            return -1;
        }
    if (arrived_.empty()) return 0;
    const Arrived& first = arrived_.front();
    const auto data = bytes(first);
    const std::size_t size = std::min(data.size(), room.left());
    if (size > 0) room.copy_in(data.data(), size);
    if (from) *from = to_kernel(first.source);
    if (out_flags) *out_flags = data.size() > size ? MSG_TRUNC : 0;
    const std::size_t answer = flags & MSG_TRUNC ? data.size() : size;
    if (!(flags & MSG_PEEK)) {
        drop(first);
        arrived_.pop_front();
    }
    return static_cast<ssize_t>(answer);
}

int Datagram::shutdown(int how) {
    Lock lock(mutex_);
    if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
        return fail_minus_one(EINVAL, "shutdown %d is neither SHUT_RD, SHUT_WR nor SHUT_RDWR", how);
    if (!peer_) return fail_minus_one(ENOTCONN, "the socket is not connected");
    shut_read_ |= how != SHUT_WR;
    shut_write_ |= how != SHUT_RD;
    nudge();
    return 0;
}

void Datagram::close() {
    service_.unwatch(udp_fd_);
    Lock lock(mutex_);
    auto all_sent = [&] {
        return std::all_of(ports_.begin(), ports_.end(), [](auto& port) { return port->all_sent(); });
    };
    wait(lock, true, now() + kDelivery, all_sent);
    closed_ = true;
    nudge();
}

int Datagram::local_address(Address& address) {
    Lock lock(mutex_);
    address = Address::of_socket(udp_fd_, domain_);
    if (!address.is_any() || !peer_) return 0;
    if (const Peer* peer = peer_of(*peer_, Speaker::program)) {
        Endpoint source = peer->port->source();
        source.port = address.port();
        address = to_kernel(source);
    }
    return 0;
}

int Datagram::peer_address(Address& address) {
    Lock lock(mutex_);
    if (!peer_) return fail_minus_one(ENOTCONN, "the socket is not connected");
    address = to_kernel(*peer_);
    return 0;
}

std::size_t Datagram::readable_bytes() {
    Lock lock(mutex_);
    progress();
    return arrived_.empty() ? 0 : bytes(arrived_.front()).size();
}

Settings Datagram::settings() {
    Lock lock(mutex_);
    return settings_;
}

int Datagram::change(const Settings& settings) {
    Lock lock(mutex_);
    settings_ = settings;
    return 0;
}

short Datagram::readiness(short wanted, const Waker*) {
    Lock lock(mutex_);
    progress();
    int events = 0;
    if (!arrived_.empty() || shut_read_) events |= POLLIN | POLLRDNORM;
    if (std::all_of(ports_.begin(), ports_.end(), [](auto& port) { return port->can_send(); }))
        events |= POLLOUT | POLLWRNORM;
    return static_cast<short>(events & wanted);
}

void Datagram::arm() {
    Lock lock(mutex_);
    for (auto& port : ports_) port->completions().arm();
}

void Datagram::drain(const Waker* self) {
    Lock lock(mutex_);
    empty_descriptors(self);
}

void Datagram::empty_descriptors(const Waker* self) {
    bool came = drain_nudge();
    for (auto& port : ports_) came |= port->completions().drain();
    if (came) note_arrival(self);
}

}  // namespace verbena::rsocket
