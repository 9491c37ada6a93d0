// What rsockets read from a peer: the private data of a connection, the headers of datagrams, and a stream's
// messages against both windows, in any order and with any grants.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "rsocket/windows.h"
#include "rsocket/wire.h"

using namespace verbena::rsocket;

namespace {

using Bytes = std::span<const std::uint8_t>;

void require(bool condition) {
    if (!condition) std::abort();
}

void datagrams(Bytes bytes) {
    if (const auto header = decode_datagram_header(bytes)) {
        require(header->size <= bytes.size());
        std::array<std::uint8_t, kMaxDatagramHeader> again{};
        require(encode_datagram_header(header->source, again) == header->size);
        // Of an IPv4 header every byte means something; of an IPv6 one too.
        require(std::memcmp(again.data(), bytes.data(), header->size) == 0);
    }
    if (const auto header = decode_udp_header(bytes)) {
        require(header->size <= bytes.size() && header->qpn <= 0xff'ffff);
        std::array<std::uint8_t, kMaxUdpHeader> bytes_again{};
        require(encode_udp_header(*header, bytes_again) == header->size);
        const auto again = decode_udp_header(bytes_again);
        require(again && again->qpn == header->qpn && again->address == header->address &&
                again->operation == header->operation);
    }
}

// After the Hello: messages of four bytes; a credit message is followed by what the list then holds.
void stream(const Hello& peer, Bytes script) {
    constexpr std::uint32_t kBuffer = 4096;
    constexpr std::uint16_t kMessages = 8;
    SendWindow sends;
    sends.open(peer);
    ReceiveWindow receives(kBuffer, kMessages);
    std::array<Target, kTargets> list{};
    const auto next = [&](void* into, std::size_t size) {
        const std::size_t here = std::min(size, script.size());
        std::memcpy(into, script.data(), here);
        script = script.subspan(here);
    };
    while (!script.empty()) {
        std::uint32_t message = 0;
        next(&message, sizeof message);
        const std::uint32_t argument = argument_of(message);
        if (kind_of(message) == Kind::data) {
            // As a stream that reads at once, a part of it or nothing, and grants when it owes.
            if (!receives.arrived(argument % (kBuffer + 2))) return;
            require(receives.available() <= kBuffer);
            std::uint32_t seen = 0;
            while (seen < receives.available()) {
                const ReceiveWindow::Piece piece = receives.piece(seen);
                require(piece.length > 0 && piece.offset + piece.length <= kBuffer);
                seen += piece.length;
            }
            if (argument & 1u << 20) receives.read(receives.available());
            if (argument & 1u << 21) receives.read(receives.available() / 2);
            for (unsigned granted = 0; receives.owes(); granted++) {
                const ReceiveWindow::Grant grant = receives.grant();
                require(granted < 4);
                require(!grant.buffer || grant.buffer->offset + grant.buffer->length <= kBuffer);
            }
        } else if (kind_of(message) == Kind::credit) {
            next(list.data(), argument & 1u << 20 ? sizeof list : 0);
            sends.credited(static_cast<std::uint16_t>(argument), list);
        } else if (kind_of(message) == Kind::map) {
            receives.passed();
        } else if (const std::uint32_t room = sends.room()) {
            const std::uint32_t length = std::max(1u, std::min(room, argument));
            require(sends.take(length).length == length);
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const Bytes bytes{data, size};
    datagrams(bytes);
    if (const auto hello = decode_hello(bytes)) {
        require(encode(*hello).size() == kHelloSize);
        stream(*hello, bytes.subspan(kHelloSize));
    }
    return 0;
}
