// A GID as RoCE v2 uses it: an IPv6 address, or an IPv4 address mapped to ::ffff:a.b.c.d.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <string>

namespace verbena {

struct Gid {
    std::array<std::uint8_t, 16> bytes{};  // network byte order

    friend auto operator<=>(const Gid&, const Gid&) = default;
    friend bool operator==(const Gid& a, const Gid& b) {  // of each packet: no call
        std::uint64_t x[2], y[2];
        std::memcpy(x, a.bytes.data(), sizeof x);
        std::memcpy(y, b.bytes.data(), sizeof y);
        return ((x[0] ^ y[0]) | (x[1] ^ y[1])) == 0;
    }

    bool is_zero() const { return *this == Gid{}; }
    bool is_ipv4() const {
        static constexpr std::uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
        return std::memcmp(bytes.data(), kPrefix, sizeof kPrefix) == 0;
    }
    bool is_multicast() const { return bytes[0] == 0xff || (is_ipv4() && (bytes[12] & 0xf0) == 0xe0); }
    bool is_loopback() const {
        if (is_ipv4()) return bytes[12] == 127;
        Gid one;
        one.bytes[15] = 1;
        return *this == one;
    }
    bool is_link_local() const { return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80; }

    // IPv4 address in host byte order; only meaningful if is_ipv4().
    std::uint32_t ipv4() const {
        return std::uint32_t{bytes[12]} << 24 | std::uint32_t{bytes[13]} << 16 |
               std::uint32_t{bytes[14]} << 8 | bytes[15];
    }
    static Gid from_ipv4(std::uint32_t host_order) {
        Gid g;
        g.bytes[10] = g.bytes[11] = 0xff;
        for (int i = 0; i < 4; i++) g.bytes[12 + i] = static_cast<std::uint8_t>(host_order >> (24 - 8 * i));
        return g;
    }
};

// For tables of peers. Never 0, so that 0 can mark a free place.
inline std::uint64_t hash(const Gid& gid) {
    std::uint64_t halves[2];
    std::memcpy(halves, gid.bytes.data(), sizeof halves);
    return (halves[0] ^ (halves[1] * 0x9e3779b97f4a7c15)) | 1;
}

// "10.0.0.1" or "fe80::1".
std::string to_string(const Gid& gid);

}  // namespace verbena
