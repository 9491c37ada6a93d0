// The way back to a datagram's sender (IBA 11.2.2; ibv_init_ah_from_wc(3), ibv_create_ah_from_wc(3)): from
// the 40 bytes in front of the payload, which over RoCE v2 are the IPv6 header, or hold the IPv4 header in
// their last 20 bytes (annex A17.4.5.2).

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>

#include "base/call_fault.h"
#include "base/reason.h"
#include "verbs/objects.h"
#include "verbs/queries.h"
#include "wire/byte_order.h"
#include "wire/ip_header.h"

namespace verbena::verbs {
namespace {

struct NetworkHeader {
    Gid source, destination;
    std::uint32_t flow_label = 0;
    std::uint8_t hop_limit = 0;
    std::uint8_t traffic_class = 0;
};

// An IPv4 header without options whose checksum is good. What stands in front of it is undefined, and may
// even look like the beginning of an IPv6 header.
bool has_ipv4_header(const std::uint8_t* header) {
    wire::InternetSum sum;
    sum.add(header, wire::kIpv4HeaderLength);
    return header[0] == 0x45 && sum.result() == 0;
}

Gid mapped(const std::uint8_t* address) { return Gid::from_ipv4(wire::load_be32(address)); }

int read_header(const ibv_grh& grh, NetworkHeader& out) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(&grh);
    const std::uint8_t* ipv4 = bytes + wire::kGrhLength - wire::kIpv4HeaderLength;
    if (has_ipv4_header(ipv4)) {
        out.traffic_class = ipv4[1];
        out.hop_limit = ipv4[8];
        out.source = mapped(ipv4 + 12);
        out.destination = mapped(ipv4 + 16);
        return 0;
    }
    if (bytes[0] >> 4 != 6)
        return fail(EPROTONOSUPPORT,
                    "the 40 bytes in front of the datagram hold neither an IPv4 nor an IPv6 header");
    const std::uint32_t first = wire::load_be32(bytes);
    out.traffic_class = static_cast<std::uint8_t>(first >> 20);
    out.flow_label = first & wire::kFlowLabelMask;
    out.hop_limit = bytes[7];
    std::memcpy(out.source.bytes.data(), bytes + 8, 16);
    std::memcpy(out.destination.bytes.data(), bytes + 24, 16);
    return 0;
}

// The GID that the datagram was sent to answers; a group has none, so the first one of its family does.
int find_own_gid(Context& context, const Gid& destination, std::uint8_t& index) {
    host::Device device;
    if (int error = require_device(context, device)) return error;
    for (unsigned i = 0; i < host::kMaxGids; i++) {
        if (!device.gid_valid[i]) continue;
        const bool fits = destination.is_multicast() ? device.gids[i].is_ipv4() == destination.is_ipv4()
                                                     : device.gids[i] == destination;
        if (!fits) continue;
        index = static_cast<std::uint8_t>(i);
        return 0;
    }
    return fail(EINVAL, "%s, where the datagram was sent to, is no GID of %s", to_string(destination).c_str(),
                context.device->base.name);
}

int address_sender(Context& context, std::uint8_t port, const ibv_wc& wc, const ibv_grh* grh,
                   ibv_ah_attr& attr) {
    attr = {};
    attr.dlid = wc.slid;
    attr.sl = wc.sl;
    attr.src_path_bits = wc.dlid_path_bits;
    attr.port_num = port;
    if (int error = check_port(port)) return error;
    if (!(wc.wc_flags & IBV_WC_GRH)) return 0;
    if (!grh) return fail(EINVAL, "grh is NULL, though the completion says that there is one");
    NetworkHeader header;
    if (int error = read_header(*grh, header)) return error;
    if (int error = find_own_gid(context, header.destination, attr.grh.sgid_index)) return error;
    attr.is_global = 1;
    std::memcpy(attr.grh.dgid.raw, header.source.bytes.data(), 16);
    attr.grh.flow_label = header.flow_label;
    attr.grh.hop_limit = header.hop_limit;
    attr.grh.traffic_class = header.traffic_class;
    return 0;
}

}  // namespace
}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

extern "C" {

int ibv_init_ah_from_wc(struct ibv_context* context, uint8_t port, struct ibv_wc* wc, struct ibv_grh* grh,
                        struct ibv_ah_attr* attr) {
    if (const Fault fault{"ibv_init_ah_from_wc"}) return fault.minus_one();
    Call call("ibv_init_ah_from_wc");
    return address_sender(*Context::of(context), port, *wc, grh, *attr) ? -1 : 0;
}

struct ibv_ah* ibv_create_ah_from_wc(struct ibv_pd* pd, struct ibv_wc* wc, struct ibv_grh* grh,
                                     uint8_t port) {
    if (const Fault fault{"ibv_create_ah_from_wc"}) return fault.null();
    Call call("ibv_create_ah_from_wc");
    ibv_ah_attr attr;
    if (address_sender(*Context::of(pd->context), port, *wc, grh, attr)) return nullptr;
    return ibv_create_ah(pd, &attr);
}

}  // extern "C"
