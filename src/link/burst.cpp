#include "link/burst.h"

#include <netinet/udp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "base/features.h"
#include "base/memcheck.h"
#include "base/reason.h"
#include "base/small_copy.h"
#include "base/uncancelled.h"
#include "link/hooks.h"
#include "link/packet_order.h"
#include "link/steering.h"
#include "wire/bth.h"
#include "wire/icrc.h"

namespace verbena::link {
namespace {

void count(std::atomic<std::uint64_t>& counter, std::uint64_t n = 1) {
    // One writer: no locked instruction needed.
    counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

// Appends control messages to a msghdr whose buffer is large enough.
class ControlWriter {
   public:
    explicit ControlWriter(std::uint8_t* buffer) : buffer_(buffer) {}

    template <typename Value>
    void add(int level, int type, const Value& value) {
        auto* header = reinterpret_cast<cmsghdr*>(buffer_ + size_);
        header->cmsg_level = level;
        header->cmsg_type = type;
        header->cmsg_len = CMSG_LEN(sizeof value);
        std::memcpy(CMSG_DATA(header), &value, sizeof value);
        size_ += CMSG_SPACE(sizeof value);
    }
    std::size_t size() const { return size_; }

   private:
    std::uint8_t* buffer_;
    std::size_t size_ = 0;
};

std::size_t datagram_length(const wire::OutPacket& packet, std::size_t payload) {
    return packet.header_length + packet.pad_count + std::size_t{wire::kIcrcLength} + payload;
}

// Of one packet, if it is a run.
std::size_t length_of(const wire::OutPacket& packet) {
    const std::size_t payload = wire::payload_length(packet);
    return datagram_length(packet, packet.aside.psns > 1 ? payload / packet.aside.psns : payload);
}

bool is_acknowledgement(const wire::OutPacket& packet) {
    const auto opcode = static_cast<wire::Opcode>(packet.header[0]);
    return opcode == wire::Opcode::rc_ack || opcode == wire::Opcode::xrc_ack;
}

}  // namespace

BurstBuilder::BurstBuilder(SourcePorts& sources, BurstPolicy& policy, WholeBursts& whole,
                           std::uint16_t destination_port)
    : sources_(sources),
      policy_(policy),
      whole_(whole),
      destination_port_(destination_port),
      icrcs_(destination_port) {}

bool BurstBuilder::has_room(std::size_t length) const {
    return message_count_ < kMaxMessages && packet_count_ < kMaxPackets && bytes_ + length <= kMaxBytes;
}

// Whether the packet continues the message that was begun last.
bool BurstBuilder::joins(const wire::OutPacket& packet, std::size_t length) const {
    if (message_count_ == 0 || packet.alone) return false;
    const Message& last = messages_[message_count_ - 1];
    return last.may_grow && length <= last.segment_size && last.segments + is_parked_ < kMaxSegments &&
           last.size + length + parked_length() <= kMaxBurst &&
           goes_along(last, packet.destination_qp(), *packet.path);
}

// To the same receive queue, and not by another way.
bool BurstBuilder::goes_along(const Message& message, std::uint32_t destination_qp,
                              const wire::Path& wanted) const {
    if (message.block != block_of(destination_qp)) return false;
    if (message.wanted == wanted) return true;
    wire::Path path = wanted;
    if (message.on_this_machine || path.udp_source_port == message.wanted.udp_source_port)
        path.udp_source_port = message.path.udp_source_port;
    else
        path.udp_source_port = sources_.find(path.is_ipv4(), path.udp_source_port).port;
    return path == message.path;
}

void BurstBuilder::start(const wire::OutPacket& packet, std::size_t length) {
    Message& message = messages_[message_count_++];
    message.wanted = message.path = *packet.path;
    const SourcePorts::Source source = sources_.find(message.path.is_ipv4(), message.path.udp_source_port);
    message.path.udp_source_port = source.port;
    message.fd = source.fd;
    message.block = block_of(packet.destination_qp());
    message.bytes = packets_.data() + bytes_;
    message.size = 0;
    message.segments = 0;
    message.segment_size = length;
    message.most = static_cast<unsigned>(
        std::min<std::size_t>({kMaxSegments - is_parked_, kMaxPackets - packet_count_,
                               (kMaxBurst - parked_length()) / length, (kMaxBytes - bytes_) / length}));
    wire::IcrcSeries& icrc = icrcs_.of(message.path, length);
    icrc.begin_like(packet.header.data());
    message.icrc = icrc;
    message.may_grow = !packet.alone && policy_.allowed(message.path.destination);
    message.on_this_machine = taken_whole(message.path);
    message.note = packet.note;
}

[[gnu::flatten]] void BurstBuilder::send(const wire::OutPacket& packet) {
    if (goes_on(packet)) [[likely]]
        go_on(packet);
    else
        begin(packet);
}

[[gnu::noinline]] void BurstBuilder::begin(const wire::OutPacket& packet) {
    if (!packet.note && (greet(packet) || park(packet))) return;
    add(packet);
}

// Whether the peer takes a burst in one piece, and looks at an acknowledgement at its end first
// (udp_receive.cpp): a process of this host, or one that has said so.
bool BurstBuilder::taken_whole(const wire::Path& path) const {
    return features().gro && (path.source == path.destination || whole_.known(path.destination));
}

bool BurstBuilder::greet(const wire::OutPacket& packet) {
    if (!is_acknowledgement(packet)) return false;
    wire::OutPacket greeting = packet;
    const wire::Path& path = *packet.path;
    if (path.source == path.destination || !features().gro || !WholeBursts::make_greeting(greeting) ||
        !policy_.allowed(path.destination) || !whole_.to_greet(path.destination))
        return false;
    release_parked();
    end_burst();
    add(packet);
    add(greeting);
    end_burst();
    return true;
}

void BurstBuilder::end_burst() {
    if (message_count_ > 0) messages_[message_count_ - 1].may_grow = false;
}

// Whether an acknowledgement waits for the packets behind it, so that one burst takes all. Only one does, and
// only for packets to its queue pair.
bool BurstBuilder::park(const wire::OutPacket& packet) {
    const bool acknowledgement = is_acknowledgement(packet);
    if (is_parked_ && (acknowledgement || packet.path->destination != parked_.path->destination ||
                       packet.destination_qp() != parked_.destination_qp()))
        release_parked();
    if (!acknowledgement || !taken_whole(*packet.path) || joins(packet, length_of(packet)) ||
        !policy_.allowed(packet.path->destination))
        return false;
    parked_ = packet;
    parked_path_ = *packet.path;
    parked_.path = &parked_path_;
    is_parked_ = true;
    parked_has_company_ = false;
    return true;
}

void BurstBuilder::release_parked() {
    if (!is_parked_) return;
    is_parked_ = parked_has_company_ = false;
    add(parked_);
}

// The message that the packet continues or begins.
BurstBuilder::Message& BurstBuilder::message_for(const wire::OutPacket& packet, std::size_t length) {
    if (!has_room(length)) flush();
    if (!joins(packet, length)) {
        if (parked_has_company_) release_parked();
        if (!has_room(length)) flush();
        start(packet, length);
        parked_has_company_ = is_parked_;
    }
    return messages_[message_count_ - 1];
}

void BurstBuilder::add(const wire::OutPacket& packet) {
    const std::uint32_t packets = packet.aside.psns;
    const std::size_t length = length_of(packet);
    memcheck::check_addressable(packet.payload);
    const memcheck::Unjudged unjudged;
    wire::Pieces payload(packet.payload);
    for (std::uint32_t index = 0; index < packets; index++)
        frame(message_for(packet, length), packet, index, length, payload);
}

// The message that packets as long as its own may go on with. Under memcheck none is, since add() has each
// payload checked.
BurstBuilder::Message* BurstBuilder::growing() {
    if (message_count_ == 0 || (is_parked_ && !parked_has_company_) || memcheck::watches()) return nullptr;
    Message& last = messages_[message_count_ - 1];
    return last.may_grow && last.segments < last.most ? &last : nullptr;
}

// What most packets of a row are: like the one before, and no acknowledgement waits for them.
bool BurstBuilder::goes_on(const wire::OutPacket& packet) {
    const Message* const last = growing();
    if (!last || packet.alone || packet.aside.psns != 1 || packet.payload.size() > 1 ||
        is_acknowledgement(packet))
        return false;
    const std::size_t payload = packet.payload.empty() ? 0 : packet.payload[0].iov_len;
    return datagram_length(packet, payload) == last->segment_size &&
           goes_along(*last, packet.destination_qp(), *packet.path);
}

[[gnu::flatten]] bool BurstBuilder::go_on(const wire::ShortPacket& packet) {
    Message* const last = growing();
    if (!last || packet.padded_length() + wire::kIcrcLength != last->segment_size ||
        !goes_along(*last, packet.destination_qp, *packet.path))
        return false;
    std::uint8_t* const frame = packets_.data() + bytes_;
    wire::store_le32(packet.write(frame), 0);  // the pad bytes, and some of the ICRC's place
    seal(*last, frame, last->icrc, false);
    return true;
}

std::uint8_t* BurstBuilder::begin_frame(const wire::OutPacket& packet) {
    std::uint8_t* const frame = packets_.data() + bytes_;
    std::memcpy(frame, packet.header.data(), wire::kMaxHeaderLength);  // of a fixed length: faster
    return frame;
}

void BurstBuilder::go_on(const wire::OutPacket& packet) {
    Message& message = messages_[message_count_ - 1];
    std::uint8_t* const frame = begin_frame(packet);
    std::uint8_t* end = frame + packet.header_length;
    for (const iovec& piece : packet.payload) {
        small_copy(end, piece.iov_base, piece.iov_len);
        end += piece.iov_len;
    }
    wire::store_le32(end, 0);  // the pad bytes, and some of the ICRC's place
    seal(message, frame, message.icrc, packet.damaged);
}

void BurstBuilder::frame(Message& message, const wire::OutPacket& packet, std::uint32_t index,
                         std::size_t length, wire::Pieces& payload) {
    std::uint8_t* const frame = begin_frame(packet);
    if (packet.aside.psns > 1) wire::place_in_run(frame, packet, index);
    std::uint8_t* end = frame + packet.header_length;
    payload.next(length - packet.header_length - packet.pad_count - wire::kIcrcLength,
                 [&end](const std::uint8_t* data, std::size_t size) {
                     std::memcpy(end, data, size);
                     end += size;
                 });
    std::memset(end, 0, packet.pad_count);
    if (length == message.segment_size) return seal(message, frame, message.icrc, packet.damaged);
    message.may_grow = false;
    seal(message, frame, icrcs_.of(message.path, length), packet.damaged);
}

void BurstBuilder::seal(Message& message, std::uint8_t* frame, wire::IcrcSeries& icrc, bool damaged) {
    const std::size_t length = icrc.length();
    std::uint32_t state = icrc.behind(frame, static_cast<std::uint16_t>(message.segments));
    if (damaged) [[unlikely]]
        state = ~state;
    wire::store_icrc(frame + length - wire::kIcrcLength, wire::icrc_end(state));
    message.segments++;
    message.size += length;
    packet_count_++;
    bytes_ += length;
}

void BurstBuilder::flush() {
    release_parked();
    for (unsigned first = 0; first < message_count_;) {
        unsigned end = first + 1;
        while (end < message_count_ && messages_[end].fd == messages_[first].fd) end++;
        send_messages(first, end);
        first = end;
    }
    message_count_ = packet_count_ = 0;
    bytes_ = 0;
}

void BurstBuilder::prepare(const Message& message, unsigned segments, Prepared& prepared, msghdr& header) {
    const wire::Path& path = message.path;
    ControlWriter control(prepared.control.data());
    prepared.address = {path.destination, destination_port_, path.interface_index};
    header = {};
    header.msg_name = const_cast<sockaddr*>(prepared.address.get());
    header.msg_namelen = prepared.address.size();
    header.msg_control = prepared.control.data();
    const bool hops = path.hop_limit != wire::kDefaultHopLimit && path.hop_limit != 0;
    // The interface only where the address alone does not say it; otherwise routing decides, so that one's
    // own address is reached through lo.
    if (path.is_ipv4()) {
        in_pktinfo info{};
        info.ipi_spec_dst.s_addr = htonl(path.source.ipv4());
        if (path.destination.is_multicast()) info.ipi_ifindex = static_cast<int>(path.interface_index);
        control.add(IPPROTO_IP, IP_PKTINFO, info);
        if (hops) control.add(IPPROTO_IP, IP_TTL, int{path.hop_limit});
        if (path.traffic_class != 0) control.add(IPPROTO_IP, IP_TOS, int{path.traffic_class});
    } else {
        in6_pktinfo info{};
        std::memcpy(&info.ipi6_addr, path.source.bytes.data(), 16);
        if (path.destination.is_multicast() || path.destination.is_link_local())
            info.ipi6_ifindex = path.interface_index;
        control.add(IPPROTO_IPV6, IPV6_PKTINFO, info);
        if (hops) control.add(IPPROTO_IPV6, IPV6_HOPLIMIT, int{path.hop_limit});
        if (path.traffic_class != 0) control.add(IPPROTO_IPV6, IPV6_TCLASS, int{path.traffic_class});
    }
    if (segments > 1) control.add(IPPROTO_UDP, UDP_SEGMENT, static_cast<std::uint16_t>(message.segment_size));
    header.msg_controllen = control.size();
}

void BurstBuilder::send_messages(unsigned first, unsigned end) {
    const memcheck::Unjudged unjudged;
    const int fd = messages_[first].fd;
    for (unsigned i = first; i < end; i++) {
        const Message& message = messages_[i];
        msghdr& header = headers_[i].msg_hdr;
        prepare(message, message.segments, prepared_[i], header);
        pieces_[i] = {message.bytes, message.size};
        header.msg_iov = &pieces_[i];
        header.msg_iovlen = 1;
        count(counters_.packets, message.segments);
        if (message.segments > 1) count(counters_.bursts);
        if (packet_observer()) observe(message);
    }
    const bool usable = fd >= 0 && files_.is_of_now();
    packets_leave();
    while (first < end) {
        int sent = usable ? uncancelled::sendmmsg(fd, &headers_[first], end - first, 0) : -1;
        if (sent > 0) {
            first += static_cast<unsigned>(sent);
            continue;
        }
        int error = usable ? errno : ENOTCONN;
        if (error == EINTR) continue;
        failed(messages_[first], error);
        first++;
    }
}

// EIO: the route cannot segment (no checksum offload, IPsec); EINVAL also from kernels that do not know the
// request.
void BurstBuilder::failed(const Message& message, int error) {
    if (message.segments > 1 && (error == EIO || error == EINVAL || error == EOPNOTSUPP)) {
        count(counters_.refused);
        policy_.avoid(message.path.destination);
        send_singly(message);
        return;
    }
    count(counters_.lost, message.segments);
    if (std::exchange(last_error_, error) != error)  // a packet filter refuses all that come
        log(LogLevel::warn, "%u packets of %zu bytes from %s to %s did not leave: %s%s", message.segments,
            message.segment_size, to_string(message.path.source).c_str(),
            to_string(message.path.destination).c_str(), std::strerror(error),
            error == EMSGSIZE ? " (the route's MTU is smaller than the queue pair's path MTU)" : "");
}

template <class Take>
void BurstBuilder::each_packet(const Message& message, Take&& take) {
    for (std::size_t at = 0; at < message.size; at += message.segment_size)
        take(std::span(message.bytes + at, std::min(message.segment_size, message.size - at)));
}

void BurstBuilder::send_singly(const Message& message) {
    each_packet(message, [&](std::span<std::uint8_t> packet) {
        // The same packet with identification 0.
        wire::store_icrc(packet.last(wire::kIcrcLength).data(),
                         wire::icrc_compute(message.path, destination_port_, packet, 0, true));
        msghdr header;
        Prepared prepared;
        prepare(message, 1, prepared, header);
        iovec piece{packet.data(), packet.size()};
        header.msg_iov = &piece;
        header.msg_iovlen = 1;
        ssize_t sent;
        packets_leave();
        do sent = uncancelled::sendmsg(message.fd, header, 0);
        while (sent < 0 && errno == EINTR);
        if (sent < 0) count(counters_.lost);
    });
}

void BurstBuilder::observe(const Message& message) {
    PacketEvent event;
    event.sent = true;
    event.path = &message.path;
    event.destination_port = destination_port_;
    event.note = message.note;
    each_packet(message, [&event](std::span<std::uint8_t> packet) {
        event.bytes = packet;
        packet_observer()->packet(event);
        event.ip_id++;
    });
}

}  // namespace verbena::link
