// Runs: middle packets of one message, equal but for their PSNs, which follow each other, and for the
// acknowledgement request, which only the last one may have. A sink takes them as one
// (PacketSink::longest_run), and so does a queue pair to which they came in one delivery.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "wire/bth.h"
#include "wire/packet_sink.h"

namespace verbena::wire {

// The bytes of a list of pieces, from the first on.
class Pieces {
   public:
    explicit Pieces(std::span<const iovec> list) : list_(list) {}

    // Calls `take(data, size)` for each piece of the next `count` bytes, or of what is left.
    template <class Take>
    void next(std::size_t count, Take&& take) {
        while (count > 0 && !list_.empty()) {
            const iovec& piece = list_.front();
            const std::size_t here = std::min(count, piece.iov_len - offset_);
            if (here > 0) take(static_cast<const std::uint8_t*>(piece.iov_base) + offset_, here);
            count -= here;
            offset_ += here;
            if (offset_ < piece.iov_len) return;
            list_ = list_.subspan(1);
            offset_ = 0;
        }
    }

   private:
    std::span<const iovec> list_;
    std::size_t offset_ = 0;
};

inline std::size_t payload_length(const OutPacket& packet) {
    std::size_t length = 0;
    for (const iovec& piece : packet.payload) length += piece.iov_len;
    return length;
}

// Makes of the header of a run that of its packet `index`.
inline void place_in_run(std::uint8_t* header, const OutPacket& run, std::uint32_t index) {
    store_be24(header + kBthPsn, (load_be24(run.header.data() + kBthPsn) + index) & 0xffffff);
    if (index + 1 < run.aside.psns) header[kBthAckRequestByte] &= static_cast<std::uint8_t>(~kBthAckRequest);
}

// Gives `take` the UDP payload of each packet that stands for one of `packets`, with zeros where the ICRC
// goes: for links that keep packets by themselves.
template <class Take>
void cut_apart(const OutPacket& packet, std::uint32_t packets, Take&& take) {
    const std::size_t payload = payload_length(packet) / packets;
    Pieces pieces(packet.payload);
    for (std::uint32_t index = 0; index < packets; index++) {
        std::vector<std::uint8_t> bytes(packet.header.begin(), packet.header.begin() + packet.header_length);
        if (packets > 1) place_in_run(bytes.data(), packet, index);
        pieces.next(payload, [&](const std::uint8_t* data, std::size_t size) {
            bytes.insert(bytes.end(), data, data + size);
        });
        bytes.insert(bytes.end(), packet.pad_count + kIcrcLength, 0);
        take(std::move(bytes));
    }
}

struct ReceivedRun {
    Bth bth;  // the first one's, with the last one's acknowledgement request
    std::uint32_t packets = 0;
    const std::uint8_t* payload = nullptr;  // the first one's
    std::size_t size = 0;                   // bytes of each one's payload
    std::size_t stride = 0;                 // from one to the next

    std::size_t length() const { return packets * size; }
    std::span<const std::uint8_t> at(std::uint32_t index) const { return {payload + index * stride, size}; }
};

// The run that some UDP payloads of `segment` bytes each, one behind the other, begin with (the last may be
// shorter). Less than two packets are none.
inline ReceivedRun leading_run(std::span<const std::uint8_t> bytes, std::size_t segment) {
    ReceivedRun run;
    if (segment <= kBthLength + kIcrcLength || bytes.size() < 2 * segment) return run;
    const std::uint8_t* const first = bytes.data();
    const auto opcode = static_cast<Opcode>(first[0]);
    if (opcode != Opcode::rc_write_middle && opcode != Opcode::rc_send_middle &&
        opcode != Opcode::rc_read_response_middle)
        return run;
    parse_bth(first, run.bth);
    if (run.bth.version != 0 || run.bth.pad_count != 0) return run;
    const auto most = static_cast<std::uint32_t>(bytes.size() / segment);
    for (run.packets = 1; run.packets < most && !run.bth.ack_request; run.packets++) {
        const std::uint8_t* const next = first + run.packets * segment;
        const std::uint32_t psn = (run.bth.psn + run.packets) & 0xffffff;
        if (std::memcmp(first, next, kBthAckRequestByte) != 0 || load_be24(next + kBthPsn) != psn) break;
        run.bth.ack_request = next[kBthAckRequestByte] & kBthAckRequest;
    }
    run.payload = first + kBthLength;
    run.size = segment - kBthLength - kIcrcLength;
    run.stride = segment;
    return run;
}

}  // namespace verbena::wire
