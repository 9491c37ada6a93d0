#include "link/stray_inbox.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/reason.h"
#include "base/uncancelled.h"
#include "wire/byte_order.h"

namespace verbena::link {
namespace {

// Precedes the packet: a mark with the version, then the path and the port, in network byte order.
constexpr std::uint32_t kMark = 0x56535402;  // "VST", version 2
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

InboxName name_of(std::string_view fabric, std::uint32_t block) { return {"stray", fabric, block}; }

}  // namespace

std::unique_ptr<StrayInbox> StrayInbox::open(std::string_view fabric, std::uint32_t block, Trust trust) {
    auto inbox = NamedInbox::open(name_of(fabric, block), trust);
    if (!inbox) return fail_null(errno, "opening the inbox of block %u: %s", block, std::strerror(errno));
    return std::unique_ptr<StrayInbox>(new StrayInbox(std::move(inbox)));
}

StrayInbox::StrayInbox(std::unique_ptr<NamedInbox> inbox)
    : inbox_(std::move(inbox)), buffer_(new std::uint8_t[kBuffer]) {}

unsigned StrayInbox::receive(Receiver& receiver, unsigned max) {
    unsigned count = 0;
    while (count < max && receive_one(receiver)) count++;
    return count;
}

bool StrayInbox::receive_one(Receiver& receiver) {
    NamedInbox::Message message;
    message.into = buffer_.get();
    message.room = kBuffer;
    if (!inbox_->next(message)) return false;
    wire::Path path;
    Datagram datagram;
    if (message.size < kHeader || (message.flags & MSG_TRUNC) ||
        !decode(buffer_.get(), path, datagram.destination_port)) {
        malformed_.fetch_add(1, std::memory_order_relaxed);
        return true;
    }
    datagram.bytes = {buffer_.get() + kHeader, message.size - kHeader};
    datagram.path = &path;
    datagram.forwarded = true;
    receiver.datagram(datagram);
    return true;
}

StraySender::~StraySender() { abandon(); }

void StraySender::abandon() {
    for (Connection& connection : connections_) close_connection(connection);
}

void StraySender::close_connection(Connection& connection) {
    if (connection.fd >= 0) uncancelled::close(std::exchange(connection.fd, -1));
}

bool StraySender::send(const Datagram& datagram, std::uint32_t block) {
    std::array<std::uint8_t, kHeader> header;
    encode(datagram, header.data());
    iovec pieces[2] = {{header.data(), header.size()},
                       {const_cast<std::uint8_t*>(datagram.bytes.data()), datagram.bytes.size()}};
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = 2;
    const std::lock_guard guard(lock_);
    Connection& connection = connections_[block % kConnections];
    if (connection.block != block) close_connection(connection);
    // Twice: who had the block may have ended since.
    for (const bool again : {false, true}) {
        const bool known = connection.fd >= 0;
        if (!known) connection = {connect_to_inbox(name_of(fabric_, block), trust_), block};
        if (connection.fd < 0) return false;
        if (uncancelled::sendmsg(connection.fd, message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return true;
        if (errno == EAGAIN) return false;
        close_connection(connection);
        if (!known || again) return false;
    }
    return false;
}

}  // namespace verbena::link
