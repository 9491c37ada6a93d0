// What rsockets put on the wire, version 1, as rdma-core's librdmacm speaks it, so that either side may be
// theirs. Pure: bytes in, bytes out.
//
// Stream: an RC connection. REQ and REP carry a Hello (40 bytes of private data, big endian). Afterwards
// every message is a RDMA WRITE with immediate: 3 bits of kind, 29 bits of argument. Data is written into the
// buffer that the peer granted; grants are written into the granter's slot of the peer's target list, in the
// byte order of the list's owner.
//
// Datagram: a UD queue pair, and a UDP socket of the same address and port, over which two sides learn each
// other's QPN: the first datagrams travel there, behind a UdpHeader. Those over UD begin with a
// DatagramHeader.
#pragma once

#include <netinet/in.h>

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>

namespace verbena::rsocket {

// A piece of one side's memory. Also the layout of an entry of a target list.
struct Target {
    std::uint64_t address = 0;
    std::uint32_t key = 0;
    std::uint32_t length = 0;
};
static_assert(sizeof(Target) == 16);

// An entry of the table of mapped buffers, which follows the target list.
struct MappedTarget {
    std::uint64_t offset = 0;
    Target target;
};
static_assert(sizeof(MappedTarget) == 24);

inline constexpr bool kBigEndian = std::endian::native == std::endian::big;

struct Hello {
    bool big_endian = kBigEndian;
    bool has_map = true;
    std::uint16_t credits = 0;  // receives posted
    unsigned map_entries = 0;   // room for the peer's mapped buffers
    Target list;                // length: entries, not bytes
    Target buffer;              // the first grant
};

inline constexpr std::size_t kHelloSize = 40;
std::array<std::uint8_t, kHelloSize> encode(const Hello& hello);
// Nothing: too short, or of another version.
std::optional<Hello> decode_hello(std::span<const std::uint8_t> bytes);

// The table's size travels in 8 bits: up to 128 as it is, above in units of 256.
std::uint8_t map_scale(unsigned entries);
unsigned map_entries(std::uint8_t scale);

enum class Kind : std::uint32_t { data = 0, credit = 4, map = 6, control = 7 };
enum class Control : std::uint32_t { disconnect = 0, keepalive = 1, shutdown = 2 };

inline constexpr std::uint32_t kArgumentMask = 0x1fff'ffff;

constexpr std::uint32_t message(Kind kind, std::uint32_t argument) {
    return static_cast<std::uint32_t>(kind) << 29 | (argument & kArgumentMask);
}
constexpr Kind kind_of(std::uint32_t message) { return static_cast<Kind>(message >> 29); }
constexpr std::uint32_t argument_of(std::uint32_t message) { return message & kArgumentMask; }

// The other byte order.
Target swapped(const Target& target);
MappedTarget swapped(const MappedTarget& entry);

// An address without its port is 4 or 16 bytes, by family.
struct Endpoint {
    sa_family_t family = AF_INET;
    std::array<std::uint8_t, 16> address{};
    std::uint16_t port = 0;   // host order
    std::uint32_t flow = 0;   // as it is in a sockaddr_in6
    std::uint32_t scope = 0;  // a link-local address' interface here; not on the wire

    // Who it is, to compare and to sort by; a flow is no part of that.
    auto identity() const { return std::tie(family, address, port, scope); }
    bool operator==(const Endpoint& other) const { return identity() == other.identity(); }
};

inline constexpr std::size_t kMaxDatagramHeader = 24;
inline constexpr std::size_t kMaxUdpHeader = 28;

// Write the header that stands before a datagram; return its size. `source` is the sender.
std::size_t encode_datagram_header(const Endpoint& source, std::span<std::uint8_t, kMaxDatagramHeader> bytes);
struct DatagramHeader {
    Endpoint source;
    std::size_t size = 0;
};
std::optional<DatagramHeader> decode_datagram_header(std::span<const std::uint8_t> bytes);

enum class UdpOperation : std::uint8_t { data = 0, control = 7 };
struct UdpHeader {
    UdpOperation operation = UdpOperation::data;
    std::uint32_t qpn = 0;
    Endpoint address;  // without a port
    std::size_t size = 0;
};
std::size_t encode_udp_header(const UdpHeader& header, std::span<std::uint8_t, kMaxUdpHeader> bytes);
std::optional<UdpHeader> decode_udp_header(std::span<const std::uint8_t> bytes);

}  // namespace verbena::rsocket
