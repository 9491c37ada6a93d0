#include "link/unsent.h"

#include <array>
#include <new>
#include <vector>

#include "base/memcheck.h"
#include "base/reason.h"
#include "wire/icrc.h"

namespace verbena::link {
namespace {

void observe(PacketObserver& observer, bool sent, std::span<std::uint8_t> bytes, const wire::Path& path,
             const char* note) {
    wire::store_icrc(bytes.data() + bytes.size() - wire::kIcrcLength,
                     wire::icrc_compute(path, wire::kUdpPort, bytes, 0, true));
    PacketEvent event;
    event.sent = sent;
    event.path = &path;
    event.bytes = bytes;
    event.note = note;
    observer.packet(event);
}

}  // namespace

void show_unsent(PacketObserver& observer, const wire::OutPacket& packet) {
    const memcheck::Unjudged unjudged;
    std::vector<std::uint8_t> bytes;
    try {
        bytes.assign(packet.header.data(), packet.header.data() + packet.header_length);
        for (const iovec& piece : packet.payload) {
            const auto* data = static_cast<const std::uint8_t*>(piece.iov_base);
            bytes.insert(bytes.end(), data, data + piece.iov_len);
        }
        bytes.resize(bytes.size() + packet.pad_count + wire::kIcrcLength);
    } catch (const std::bad_alloc&) {
        return log(LogLevel::warn, "no memory to show a packet");
    }
    observe(observer, true, bytes, *packet.path, packet.note);
}

void show_arrival(PacketObserver& observer, const wire::Packet& packet, const wire::Path& path,
                  const char* note) {
    std::array<std::uint8_t, wire::kMaxHeaderLength + wire::kIcrcLength> bytes{};
    const std::size_t length = wire::emit(packet.headers, bytes.data());
    observe(observer, false, std::span(bytes).first(length + wire::kIcrcLength), path, note);
}

}  // namespace verbena::link
