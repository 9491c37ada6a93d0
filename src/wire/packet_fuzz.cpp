// Any bytes as a UDP payload: parsing stays inside them, emitting gives the same headers again, and the ICRC
// solver agrees with the sender it imagines.
#include <cstdlib>

#include "wire/describe.h"
#include "wire/icrc.h"
#include "wire/packet.h"
#include "wire/run.h"

using namespace verbena::wire;

namespace {

void require(bool holds) {
    if (!holds) std::abort();
}

void check_icrc(std::span<const std::uint8_t> payload) {
    Path path;
    path.source = verbena::Gid::from_ipv4(0x0a000001);
    path.destination = verbena::Gid::from_ipv4(0x0a000002);
    std::uint32_t id = 0xffffffff;
    if (icrc_verify(path, kUdpPort, payload, &id) != IcrcCheck::good) return;
    std::uint32_t sent = load_le32(payload.data() + payload.size() - kIcrcLength);
    require(id <= 0xffff);
    require(icrc_compute(path, kUdpPort, payload, static_cast<std::uint16_t>(id), true) == sent);
}

// As if it were several packets.
void check_run(std::span<const std::uint8_t> bytes) {
    for (const std::size_t segment : {bytes.size() / 4, bytes.size() / 2, bytes.size()}) {
        const ReceivedRun run = leading_run(bytes, segment);
        require(run.packets * segment <= bytes.size());
        for (std::uint32_t i = 0; i < run.packets; i++)
            require(run.at(i).data() >= bytes.data() &&
                    run.at(i).data() + run.size <= bytes.data() + bytes.size());
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::span<const std::uint8_t> payload(data, size);
    check_icrc(payload);
    check_run(payload);
    Packet packet;
    ParseError error = parse(payload, packet);
    require(!describe(packet).empty());
    if (error != ParseError::none) return 0;

    std::size_t pad = packet.headers.bth.pad_count;
    std::uint8_t out[kMaxHeaderLength + 4 + kIcrcLength] = {};
    std::size_t length = emit(packet.headers, out);
    require(length == header_length(packet.headers.bth.opcode));
    require(length + packet.payload.size() + pad + kIcrcLength == size);
    require(size == length + kIcrcLength || packet.payload.data() == data + length);

    // Emitted bytes differ from the parsed ones in reserved bits only, so they parse to the same headers.
    Packet again;
    std::size_t padding = pad == 0 ? 0 : 4;
    require(parse(std::span(out).first(length + padding + kIcrcLength), again) == ParseError::none);
    require(again.headers == packet.headers);
    return 0;
}
