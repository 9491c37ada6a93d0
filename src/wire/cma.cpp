#include "wire/cma.h"

#include <algorithm>

#include "wire/byte_order.h"

namespace verbena::wire {
namespace {

Gid to_gid(const std::array<std::uint8_t, 16>& address, std::uint8_t ip_version) {
    if (ip_version == 4) return Gid::from_ipv4(load_be32(address.data() + 12));
    return Gid{address};
}

std::array<std::uint8_t, 16> from_gid(const Gid& gid, std::uint8_t ip_version) {
    std::array<std::uint8_t, 16> address = gid.bytes;
    if (ip_version == 4) std::fill_n(address.begin(), 12, std::uint8_t{0});
    return address;
}

}  // namespace

Gid CmaHeader::source_gid() const { return to_gid(source, ip_version); }
Gid CmaHeader::destination_gid() const { return to_gid(destination, ip_version); }

void CmaHeader::set_addresses(const Gid& from, const Gid& to) {
    ip_version = from.is_ipv4() && to.is_ipv4() ? 4 : 6;
    source = from_gid(from, ip_version);
    destination = from_gid(to, ip_version);
}

void encode(const CmaHeader& header, std::span<std::uint8_t, kCmaHeaderLength> out) {
    out[0] = header.cma_version;
    out[1] = static_cast<std::uint8_t>(header.ip_version << 4 | (header.reserved1 & 0x0f));
    store_be16(out.data() + 2, header.port);
    std::copy(header.source.begin(), header.source.end(), out.begin() + 4);
    std::copy(header.destination.begin(), header.destination.end(), out.begin() + 20);
}

bool decode(std::span<const std::uint8_t, kCmaHeaderLength> in, CmaHeader& out) {
    out.cma_version = in[0];
    out.ip_version = in[1] >> 4;
    out.reserved1 = in[1] & 0x0f;
    out.port = load_be16(in.data() + 2);
    std::copy_n(in.begin() + 4, 16, out.source.begin());
    std::copy_n(in.begin() + 20, 16, out.destination.begin());
    return out.cma_version == 0 && (out.ip_version == 4 || out.ip_version == 6);
}

}  // namespace verbena::wire
