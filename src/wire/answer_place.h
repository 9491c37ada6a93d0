// For the simulator and for tests, whose packets are bytes: where the answer to a READ may be written to, as
// its request says (Aside::placed), travels beside these.
#pragma once

#include <cstring>
#include <span>

#include "wire/opcode.h"
#include "wire/packet.h"
#include "wire/packet_sink.h"

namespace verbena::wire {

// What a packet says; no length: nothing.
inline iovec place_told_by(const OutPacket& packet) {
    const bool tells = static_cast<Opcode>(packet.header[0]) == Opcode::rc_read_request;
    return tells && !packet.payload.empty() ? packet.payload[0] : iovec{};
}

class AnswerPlace : public Elsewhere {
   public:
    explicit AnswerPlace(const iovec& place) : place_(place) {}
    std::size_t length() const override { return place_.iov_len; }
    bool fetch(std::uint32_t, std::span<const iovec>) override { return false; }
    void decline() override {}
    bool store(std::uint32_t, const std::uint8_t* from) override {
        std::memcpy(place_.iov_base, from, place_.iov_len);
        return true;
    }

   protected:
    const iovec place_;
};

}  // namespace verbena::wire
