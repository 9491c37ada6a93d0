#include "link/stray_inbox.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "base/reason.h"
#include "base/uncancelled.h"
#include "wire/byte_order.h"

namespace verbena::link {
namespace {

// Precedes the packet: a mark with the version, then the path and the port, in network byte order.
constexpr std::uint32_t kMark = 0x56535401;  // "VST", version 1
constexpr std::size_t kHeader = 48;

void encode(const Datagram& datagram, std::uint8_t* out) {
    std::memset(out, 0, kHeader);
    wire::store_be32(out, kMark);
    std::memcpy(out + 4, datagram.path->source.bytes.data(), 16);
    std::memcpy(out + 20, datagram.path->destination.bytes.data(), 16);
    wire::store_be32(out + 36, datagram.path->interface_index);
    wire::store_be16(out + 40, datagram.path->udp_source_port);
    wire::store_be16(out + 42, datagram.destination_port);
    out[44] = datagram.path->traffic_class;
    out[45] = datagram.path->hop_limit;
}

bool decode(const std::uint8_t* in, wire::Path& path, std::uint16_t& destination_port) {
    if (wire::load_be32(in) != kMark) return false;
    std::memcpy(path.source.bytes.data(), in + 4, 16);
    std::memcpy(path.destination.bytes.data(), in + 20, 16);
    path.interface_index = wire::load_be32(in + 36);
    path.udp_source_port = wire::load_be16(in + 40);
    destination_port = wire::load_be16(in + 42);
    path.traffic_class = in[44];
    path.hop_limit = in[45];
    return true;
}

// Returns the address's length, 0 if the name is too long.
socklen_t address_of(const std::string& name, sockaddr_un& address) {
    address = {};
    address.sun_family = AF_UNIX;
    if (name.size() > sizeof address.sun_path) return 0;
    std::memcpy(address.sun_path, name.data(), name.size());
    return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
}

bool from_trusted_user(msghdr& message) {
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header))
        if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_CREDENTIALS) {
            ucred credentials;
            std::memcpy(&credentials, CMSG_DATA(header), sizeof credentials);
            return credentials.uid == geteuid() || credentials.uid == 0;
        }
    return false;
}

}  // namespace

std::string stray_name(std::string_view fabric, std::uint32_t block) {
    char number[16];
    std::snprintf(number, sizeof number, "/%03x", block);
    std::string name(1, '\0');
    name += "verbena-stray/";
    name += fabric;
    name += number;
    return name;
}

std::unique_ptr<StrayInbox> StrayInbox::open(std::string_view fabric, std::uint32_t block) {
    sockaddr_un address;
    const socklen_t size = address_of(stray_name(fabric, block), address);
    if (size == 0) return fail_null(ENAMETOOLONG, "the fabric's name is too long for a socket");
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return fail_null(errno, "socket(AF_UNIX): %s", std::strerror(errno));
    const int on = 1;
    if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 ||
        bind(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0) {
        const int error = errno;
        close(fd);
        return fail_null(error, "opening the inbox of block %u: %s", block, std::strerror(error));
    }
    return std::unique_ptr<StrayInbox>(new StrayInbox(fd));
}

StrayInbox::StrayInbox(int fd) : fd_(fd), buffer_(new std::uint8_t[kBuffer]) {}

StrayInbox::~StrayInbox() { abandon(); }

void StrayInbox::abandon() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
}

unsigned StrayInbox::receive(Receiver& receiver, unsigned max) {
    unsigned count = 0;
    while (count < max && receive_one(receiver)) count++;
    return count;
}

bool StrayInbox::receive_one(Receiver& receiver) {
    iovec piece{buffer_.get(), kBuffer};
    alignas(cmsghdr) std::array<std::uint8_t, 64> control;
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t size = uncancelled::recvmsg(fd_, message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (size < 0) return false;
    wire::Path path;
    Datagram datagram;
    if (static_cast<std::size_t>(size) < kHeader || (message.msg_flags & MSG_TRUNC) ||
        !from_trusted_user(message) || !decode(buffer_.get(), path, datagram.destination_port)) {
        refused_.fetch_add(1, std::memory_order_relaxed);
        return true;
    }
    datagram.bytes = {buffer_.get() + kHeader, static_cast<std::size_t>(size) - kHeader};
    datagram.path = &path;
    datagram.forwarded = true;
    receiver.datagram(datagram);
    return true;
}

StraySender::StraySender(std::string_view fabric)
    : fabric_(fabric), fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {}

StraySender::~StraySender() {
    if (fd_ >= 0) close(fd_);
}

bool StraySender::send(const Datagram& datagram, std::uint32_t block) {
    sockaddr_un address;
    const socklen_t size = address_of(stray_name(fabric_, block), address);
    if (size == 0 || fd_ < 0) return false;
    std::array<std::uint8_t, kHeader> header;
    encode(datagram, header.data());
    iovec pieces[2] = {{header.data(), header.size()},
                       {const_cast<std::uint8_t*>(datagram.bytes.data()), datagram.bytes.size()}};
    msghdr message{};
    message.msg_name = &address;
    message.msg_namelen = size;
    message.msg_iov = pieces;
    message.msg_iovlen = 2;
    return uncancelled::sendmsg(fd_, message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

}  // namespace verbena::link
