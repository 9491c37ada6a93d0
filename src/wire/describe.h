// One line of text for a packet or a CM message, for traces, captures' comments and tests' messages:
//     rc_send_only qp=0x000011 psn=123456 ack_request payload=64
//     REQ local_comm_id=0x1234 service=tcp:7471 qpn=0x000011 psn=123456 mtu=1024 ...
// Not for data paths: it allocates.
#pragma once

#include <string>

#include "wire/cm_messages.h"
#include "wire/mad.h"
#include "wire/packet.h"

namespace verbena::wire {

// A UD SEND to QP1 whose payload is a CM MAD is described as the CM message.
std::string describe(const Packet& packet);

// A whole MAD of 256 bytes.
std::string describe_mad(std::span<const std::uint8_t, kMadLength> mad);

std::string describe(const Req& message);
std::string describe(const Mra& message);
std::string describe(const Rej& message);
std::string describe(const Rep& message);
std::string describe(const Rtu& message);
std::string describe(const Dreq& message);
std::string describe(const Drep& message);
std::string describe(const Lap& message);
std::string describe(const Apr& message);
std::string describe(const SidrReq& message);
std::string describe(const SidrRep& message);

}  // namespace verbena::wire
