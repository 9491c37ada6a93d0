#include "sim/sim_link.h"

#include <cstring>
#include <utility>

#include "wire/answer_place.h"
#include "wire/byte_order.h"
#include "wire/icrc.h"
#include "wire/run.h"

namespace verbena::sim {
namespace {

constexpr unsigned kQpnOffset = 5;

// Whether the payload of a large packet may have to be fetched, or is a place.
bool may_be_elsewhere(const wire::Packet& packet, const wire::Aside& aside) {
    const wire::Operation operation = wire::info(packet.headers.bth.opcode).operation;
    return operation == wire::Operation::send || (operation == wire::Operation::write && aside.stays) ||
           operation == wire::Operation::read_request;
}

}  // namespace

bool SimLink::joins(const Frame& frame) const {
    if (!bursts_ || pending_.empty() || segments_ == 0 || segments_ >= kMaxSegments) return false;
    const Frame& last = pending_.back();
    // A shorter segment ends its burst.
    return last.bytes.size() == segment_size_ && frame.bytes.size() <= segment_size_ &&
           last.path == frame.path &&
           std::memcmp(last.bytes.data() + kQpnOffset, frame.bytes.data() + kQpnOffset, 3) == 0;
}

void SimLink::send(const wire::OutPacket& out) {
    wire::OutPacket packet = out;
    const iovec place = wire::place_told_by(packet);
    if (place.iov_len > 0) packet.payload = {};
    const bool run = largest_payload_ == 0 && packet.aside.psns > 1;  // else it is a large one
    wire::cut_apart(packet, run ? packet.aside.psns : 1, [&](std::vector<std::uint8_t> bytes) {
        Frame frame;
        frame.path = *packet.path;
        if (!run) frame.aside = packet.aside;
        frame.place = place;
        frame.bytes = std::move(bytes);
        send_frame(std::move(frame));
    });
}

void SimLink::send_frame(Frame frame) {
    if (joins(frame)) {
        frame.ip_id = segments_++;
    } else {
        segment_size_ = frame.bytes.size();
        segments_ = 1;
    }
    wire::store_icrc(frame.bytes.data() + frame.bytes.size() - wire::kIcrcLength,
                     wire::icrc_compute(frame.path, wire::kUdpPort, frame.bytes, frame.ip_id, true));
    packets_sent_++;
    pending_.push_back(std::move(frame));
}

std::size_t SimLink::pause() {
    if (largest_payload_ > 0) flush();  // a peer of this host
    std::size_t bytes = 0;
    for (const Frame& frame : pending_) bytes += frame.bytes.size();
    return bytes;
}

void SimLink::flush() {
    for (Frame& frame : pending_) network_.send(std::move(frame));
    pending_.clear();
    segments_ = 0;
}

// Whoever fetches it copies it from the frame.
class SimLink::Fetched final : public wire::Elsewhere {
   public:
    Fetched(std::span<const std::uint8_t> payload, bool there, std::uint64_t placed)
        : payload_(payload), there_(there), placed_(placed) {}
    std::size_t length() const override { return payload_.size(); }
    std::uint64_t placed() const override { return placed_; }
    bool fetch(std::uint32_t, std::span<const iovec> into) override {
        const std::uint8_t* from = payload_.data();
        for (const iovec& piece : into) {
            std::memcpy(piece.iov_base, from, there_ ? piece.iov_len : piece.iov_len / 2);
            from += piece.iov_len;
        }
        return there_;
    }
    void decline() override {}

   private:
    const std::span<const std::uint8_t> payload_;
    const bool there_;
    const std::uint64_t placed_;
};

class SimLink::Stored final : public wire::AnswerPlace {
   public:
    Stored(const Frame& frame, const Stores& stores)
        : AnswerPlace(frame.place), frame_(frame), stores_(stores) {}
    bool store(std::uint32_t requester, const std::uint8_t* from) override {
        return stores_ && stores_(frame_.path, {requester, frame_.aside.placed, place_}, from);
    }

   private:
    const Frame& frame_;
    const Stores& stores_;
};

void SimLink::deliver(link::Receiver& receiver, const Frame& frame) {
    constexpr unsigned kNotThere = 8;  // one in so many
    link::Datagram datagram;
    datagram.bytes = frame.bytes;
    datagram.path = &frame.path;
    datagram.aside = frame.aside;
    wire::Packet packet;
    // From peers of the same host: nobody checks the ICRC, and the straight path is open.
    // Of several packets that came as one, too, if they were copied; half of them take the long way.
    const bool copied = frame.aside.psns == 1 || (!frame.aside.stays && ++several_ % 2 == 0);
    datagram.by_memory = largest_payload_ > 0 && !frame.corrupted && copied;
    if (datagram.by_memory && receiver.straight(datagram)) return;
    if ((frame.aside.psns == 1 && !frame.aside.stays) || frame.corrupted ||
        wire::parse(frame.bytes, packet) != wire::ParseError::none ||
        !may_be_elsewhere(packet, frame.aside) || (++fetched_ % 2 == 0 && !frame.aside.stays))
        return receiver.datagram(datagram);
    Fetched fetched(packet.payload, fetched_ % kNotThere != 1, frame.aside.placed);
    Stored stored(frame, stores);
    const std::size_t headers = wire::header_length(packet.headers.bth.opcode);
    std::vector<std::uint8_t> bytes(frame.bytes.begin(),
                                    frame.bytes.begin() + static_cast<std::ptrdiff_t>(headers));
    packet.headers.bth.pad_count = 0;
    wire::emit(packet.headers, bytes.data());
    bytes.resize(headers + wire::kIcrcLength);
    datagram.bytes = bytes;
    datagram.by_memory = true;
    datagram.elsewhere = frame.place.iov_len > 0 ? static_cast<wire::Elsewhere*>(&stored) : &fetched;
    receiver.datagram(datagram);
}

unsigned SimLink::receive(link::Receiver& receiver, unsigned max) {
    unsigned taken = 0;
    Frame frame;
    while (taken < max && network_.take(inbox_, frame)) {
        deliver(receiver, frame);
        taken++;
        corrupted_received_ += frame.corrupted;
    }
    return taken;
}

}  // namespace verbena::sim
