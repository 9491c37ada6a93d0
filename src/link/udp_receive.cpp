#include "link/udp_receive.h"

#include <netinet/udp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "base/socket_address.h"
#include "base/uncancelled.h"
#include "link/packet_order.h"
#include "wire/bth.h"
#include "wire/opcode.h"

namespace verbena::link {
namespace {

template <typename Value>
Value value_of(const cmsghdr* header) {
    Value value{};
    std::memcpy(&value, CMSG_DATA(const_cast<cmsghdr*>(header)), sizeof value);
    return value;
}

// What the control messages say; an IPv4 packet on an IPv6 socket has its addresses mapped by the kernel, but
// brings TTL and TOS as IPv4 ones. Returns the size of the merged packets, 0 if there is one only.
std::size_t read_control(msghdr& message, wire::Path& path) {
    std::size_t segment = 0;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_PKTINFO) {
            auto info = value_of<in6_pktinfo>(header);
            std::memcpy(path.destination.bytes.data(), &info.ipi6_addr, 16);
            path.interface_index = info.ipi6_ifindex;
        } else if (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_PKTINFO) {
            auto info = value_of<in_pktinfo>(header);
            path.destination = Gid::from_ipv4(ntohl(info.ipi_addr.s_addr));
            path.interface_index = static_cast<std::uint32_t>(info.ipi_ifindex);
        } else if (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_HOPLIMIT) {
            path.hop_limit = static_cast<std::uint8_t>(value_of<int>(header));
        } else if (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_TCLASS) {
            path.traffic_class = static_cast<std::uint8_t>(value_of<int>(header));
        } else if (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_TTL) {
            path.hop_limit = static_cast<std::uint8_t>(value_of<int>(header));
        } else if (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_TOS) {
            path.traffic_class = value_of<std::uint8_t>(header);
        } else if (header->cmsg_level == IPPROTO_UDP && header->cmsg_type == UDP_GRO) {
            segment = static_cast<std::size_t>(value_of<int>(header));
        }
    }
    return segment;
}

// Where the acknowledgement lies with which a burst of requests ends, and which then comes first; 0: there is
// none. Our sender puts it there because only a burst's last packet may be shorter, but it speaks of requests
// that were sent before these (burst.cpp). Behind responses to the same queue pair the order counts: an
// acknowledgement that skips one says that it was lost (IBA 9.7.5.1.2).
std::size_t acknowledgement_at_end(std::span<const std::uint8_t> burst, std::size_t segment) {
    if (burst.size() <= segment) return 0;
    const std::size_t last = (burst.size() - 1) / segment * segment;
    if (burst.size() - last < wire::kBthLength ||
        static_cast<wire::Opcode>(burst[last]) != wire::Opcode::rc_ack)
        return 0;
    const auto destination_qp = [&](std::size_t at) {
        return wire::BthWords(burst.data() + at).destination_qp();
    };
    for (std::size_t at = 0; at < last; at += segment) {
        const auto opcode = static_cast<wire::Opcode>(burst[at]);
        if (opcode >= wire::Opcode::rc_read_response_first && opcode <= wire::Opcode::rc_atomic_ack &&
            destination_qp(at) == destination_qp(last))
            return 0;
    }
    return last;
}

}  // namespace

// Not value-initialized: pages that no packet fills are never touched.
UdpReader::UdpReader(std::uint16_t destination_port, WholeBursts& whole)
    : destination_port_(destination_port),
      icrcs_(destination_port),
      whole_(whole),
      buffers_(new std::uint8_t[kMessages * kBuffer]) {
    for (unsigned i = 0; i < kMessages; i++) {
        iovecs_[i] = {buffers_.get() + i * kBuffer, kBuffer};
        msghdr& header = headers_[i].msg_hdr;
        header = {};
        header.msg_name = &sources_[i];
        header.msg_iov = &iovecs_[i];
        header.msg_iovlen = 1;
        header.msg_control = controls_[i].bytes.data();
    }
}

unsigned UdpReader::read(int fd, Receiver& receiver, unsigned max) {
    unsigned delivered = 0;
    while (delivered < max) {
        const unsigned asked = batch_;
        for (unsigned i = 0; i < asked; i++) {
            headers_[i].msg_hdr.msg_namelen = sizeof(sockaddr_in6);
            headers_[i].msg_hdr.msg_controllen = sizeof(Control);
        }
        const int result = uncancelled::recvmmsg(fd, headers_.data(), asked, MSG_DONTWAIT);
        if (result <= 0) {
            batch_ = 1;
            // An error that waited on the socket is not ours to act on: the packet it speaks of is lost, no
            // more.
            if (result < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EBADF && ++delivered < max)
                continue;
            break;
        }
        packets_came();
        const auto count = static_cast<unsigned>(result);
        for (unsigned i = 0; i < count; i++) delivered += deliver(fd, i, headers_[i].msg_len, receiver);
        batch_ = count < asked ? 1 : std::min(2 * asked, kMessages);
        if (count < asked || asked == 1) break;
    }
    return delivered;
}

unsigned UdpReader::deliver(int fd, unsigned index, std::size_t size, Receiver& receiver) {
    msghdr& header = headers_[index].msg_hdr;
    if (header.msg_flags & MSG_TRUNC) {
        truncated_.fetch_add(1, std::memory_order_relaxed);
        return 1;
    }
    wire::Path path;
    const auto* const source = static_cast<const sockaddr*>(header.msg_name);
    path.source = gid_of(source).value_or(Gid{});
    path.udp_source_port = port_of(source);
    std::size_t segment = read_control(header, path);
    if (segment == 0 || segment > size) segment = std::max<std::size_t>(size, 1);  // nothing is a packet, too

    Datagram datagram;
    datagram.path = &path;
    datagram.destination_port = destination_port_;
    const std::uint8_t* bytes = buffers_.get() + index * kBuffer;
    unsigned count = 0;
    whole_.received(path.source, fd, {bytes, size}, segment);
    if (const std::size_t last = acknowledgement_at_end({bytes, size}, segment)) {
        datagram.bytes = {bytes + last, size - last};
        datagram.icrc = &icrcs_.of(path, size - last);
        datagram.likely_ip_id = static_cast<std::uint16_t>(last / segment);
        receiver.datagram(datagram);
        datagram.likely_ip_id = 0;
        size = last;
        count++;
    }
    datagram.icrc = &icrcs_.of(path, segment);
    datagram.bytes = {bytes, size};
    receiver.burst(datagram, segment);
    return count + static_cast<unsigned>(std::max<std::size_t>((size + segment - 1) / segment, 1));
}

}  // namespace verbena::link
