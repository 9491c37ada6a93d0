#include "sim/sim_link.h"

#include <cstring>

#include "wire/byte_order.h"
#include "wire/icrc.h"

namespace verbena::sim {
namespace {

constexpr unsigned kQpnOffset = 5;

}  // namespace

bool SimLink::joins(const Frame& frame) const {
    if (!bursts_ || pending_.empty() || segments_ == 0 || segments_ >= kMaxSegments) return false;
    const Frame& last = pending_.back();
    // A shorter segment ends its burst.
    return last.bytes.size() == segment_size_ && frame.bytes.size() <= segment_size_ &&
           last.path == frame.path &&
           std::memcmp(last.bytes.data() + kQpnOffset, frame.bytes.data() + kQpnOffset, 3) == 0;
}

void SimLink::send(const wire::OutPacket& packet) {
    Frame frame;
    frame.path = *packet.path;
    std::size_t length = packet.header_length + packet.pad_count + std::size_t{wire::kIcrcLength};
    for (const iovec& piece : packet.payload) length += piece.iov_len;
    frame.bytes.resize(length);

    std::uint8_t* out = frame.bytes.data();
    std::memcpy(out, packet.header.data(), packet.header_length);
    out += packet.header_length;
    for (const iovec& piece : packet.payload) {
        std::memcpy(out, piece.iov_base, piece.iov_len);
        out += piece.iov_len;
    }
    out += packet.pad_count;
    if (joins(frame)) {
        frame.ip_id = segments_++;
    } else {
        segment_size_ = length;
        segments_ = 1;
    }
    wire::store_icrc(out, wire::icrc_compute(frame.path, wire::kUdpPort, frame.bytes, frame.ip_id, true));
    packets_sent_++;
    pending_.push_back(std::move(frame));
}

void SimLink::flush() {
    for (Frame& frame : pending_) network_.send(std::move(frame));
    pending_.clear();
    segments_ = 0;
}

unsigned SimLink::receive(link::Receiver& receiver, unsigned max) {
    unsigned taken = 0;
    Frame frame;
    while (taken < max && network_.take(inbox_, frame)) {
        link::Datagram datagram;
        datagram.bytes = frame.bytes;
        datagram.path = &frame.path;
        receiver.datagram(datagram);
        taken++;
        corrupted_received_ += frame.corrupted;
    }
    return taken;
}

}  // namespace verbena::sim
