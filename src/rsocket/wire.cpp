#include "rsocket/wire.h"

#include <algorithm>
#include <cstring>

#include "wire/byte_order.h"

namespace verbena::rsocket {
namespace {

using namespace verbena::wire;

constexpr std::uint8_t kVersion = 1;
constexpr std::uint8_t kFlagBigEndian = 1;
constexpr std::uint8_t kFlagMap = 2;
constexpr std::uint32_t kUdpTag = 0x5555'5555;

constexpr std::size_t kDatagramHeader4 = 8, kDatagramHeader6 = 24;
constexpr std::size_t kUdpHeader4 = 16, kUdpHeader6 = 28;

void store(std::uint8_t* at, const Target& target) {
    store_be64(at, target.address);
    store_be32(at + 8, target.key);
    store_be32(at + 12, target.length);
}

Target load(const std::uint8_t* at) { return {load_be64(at), load_be32(at + 8), load_be32(at + 12)}; }

}  // namespace

std::array<std::uint8_t, kHelloSize> encode(const Hello& hello) {
    std::array<std::uint8_t, kHelloSize> bytes{};
    bytes[0] = kVersion;
    bytes[1] =
        static_cast<std::uint8_t>((hello.big_endian ? kFlagBigEndian : 0) | (hello.has_map ? kFlagMap : 0));
    store_be16(&bytes[2], hello.credits);
    bytes[7] = map_scale(hello.map_entries);
    store(&bytes[8], hello.list);
    store(&bytes[24], hello.buffer);
    return bytes;
}

std::optional<Hello> decode_hello(std::span<const std::uint8_t> bytes) {
    if (bytes.size() < kHelloSize || bytes[0] != kVersion) return {};
    Hello hello;
    hello.big_endian = (bytes[1] & kFlagBigEndian) != 0;
    hello.has_map = (bytes[1] & kFlagMap) != 0;
    hello.credits = load_be16(&bytes[2]);
    hello.map_entries = hello.has_map ? map_entries(bytes[7]) : 0;
    hello.list = load(&bytes[8]);
    hello.buffer = load(&bytes[24]);
    return hello;
}

std::uint8_t map_scale(unsigned entries) {
    if (entries <= 0x80) return static_cast<std::uint8_t>(entries);
    return static_cast<std::uint8_t>(0x80 | std::min(entries >> 8, 0x7fu));
}

unsigned map_entries(std::uint8_t scale) {
    return scale <= 0x80 ? scale : static_cast<unsigned>(scale & 0x7f) << 8;
}

Target swapped(const Target& target) {
    return {__builtin_bswap64(target.address), __builtin_bswap32(target.key),
            __builtin_bswap32(target.length)};
}

MappedTarget swapped(const MappedTarget& entry) {
    return {__builtin_bswap64(entry.offset), swapped(entry.target)};
}

std::size_t encode_datagram_header(const Endpoint& source,
                                   std::span<std::uint8_t, kMaxDatagramHeader> bytes) {
    const bool v4 = source.family == AF_INET;
    const std::size_t size = v4 ? kDatagramHeader4 : kDatagramHeader6;
    bytes[0] = v4 ? 4 : 6;
    bytes[1] = static_cast<std::uint8_t>(size);
    store_be16(&bytes[2], source.port);
    if (v4) {
        std::memcpy(&bytes[4], source.address.data(), 4);
    } else {
        std::memcpy(&bytes[4], &source.flow, 4);
        std::memcpy(&bytes[8], source.address.data(), 16);
    }
    return size;
}

std::optional<DatagramHeader> decode_datagram_header(std::span<const std::uint8_t> bytes) {
    if (bytes.size() < kDatagramHeader4) return {};
    const bool v4 = bytes[0] == 4;
    DatagramHeader header;
    header.size = v4 ? kDatagramHeader4 : kDatagramHeader6;
    if ((!v4 && bytes[0] != 6) || bytes[1] != header.size || bytes.size() < header.size) return {};
    header.source.family = v4 ? AF_INET : AF_INET6;
    header.source.port = load_be16(&bytes[2]);
    if (v4) {
        std::memcpy(header.source.address.data(), &bytes[4], 4);
    } else {
        std::memcpy(&header.source.flow, &bytes[4], 4);
        std::memcpy(header.source.address.data(), &bytes[8], 16);
    }
    return header;
}

std::size_t encode_udp_header(const UdpHeader& header, std::span<std::uint8_t, kMaxUdpHeader> bytes) {
    const bool v4 = header.address.family == AF_INET;
    const std::size_t size = v4 ? kUdpHeader4 : kUdpHeader6;
    store_be32(&bytes[0], kUdpTag);
    bytes[4] = v4 ? 4 : 6;
    bytes[5] = static_cast<std::uint8_t>(header.operation);
    bytes[6] = static_cast<std::uint8_t>(size);
    bytes[7] = 0;
    store_be32(&bytes[8], header.qpn & 0xff'ffff);
    std::memcpy(&bytes[12], header.address.address.data(), v4 ? 4 : 16);
    return size;
}

std::optional<UdpHeader> decode_udp_header(std::span<const std::uint8_t> bytes) {
    if (bytes.size() < kUdpHeader4 || load_be32(&bytes[0]) != kUdpTag) return {};
    const bool v4 = bytes[4] == 4;
    UdpHeader header;
    header.size = v4 ? kUdpHeader4 : kUdpHeader6;
    if ((!v4 && bytes[4] != 6) || bytes[6] != header.size || bytes.size() < header.size) return {};
    if (bytes[5] != static_cast<std::uint8_t>(UdpOperation::data) &&
        bytes[5] != static_cast<std::uint8_t>(UdpOperation::control))
        return {};
    header.operation = static_cast<UdpOperation>(bytes[5]);
    header.qpn = load_be32(&bytes[8]) & 0xff'ffff;
    header.address.family = v4 ? AF_INET : AF_INET6;
    std::memcpy(header.address.address.data(), &bytes[12], v4 ? 4 : 16);
    return header;
}

}  // namespace verbena::rsocket
