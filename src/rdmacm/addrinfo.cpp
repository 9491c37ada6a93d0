// rdma_getaddrinfo and rdma_freeaddrinfo: the resolver of the C library, in rdma_cm's terms. Only the first
// answer is converted, as librdmacm does; a resolver's failure is returned as its own EAI_* code, which is
// what programs print with gai_strerror.
#include <infiniband/ib.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/call_fault.h"
#include "base/reason.h"
#include "host/client.h"
#include "rdmacm/address.h"
#include "rdmacm/id.h"
#include "rdmacm/newer_api.h"

namespace verbena::rdmacm {
namespace {

bool is_stream(int qp_type) {
    return qp_type == IBV_QPT_RC || qp_type == IBV_QPT_UC || qp_type == IBV_QPT_XRC_SEND ||
           qp_type == IBV_QPT_XRC_RECV;
}

addrinfo resolver_hints(const rdma_addrinfo& hints) {
    addrinfo out{};
    if (hints.ai_flags & RAI_PASSIVE) out.ai_flags |= AI_PASSIVE;
    if (hints.ai_flags & RAI_NUMERICHOST) out.ai_flags |= AI_NUMERICHOST;
    if (hints.ai_family != kFamilyIb) out.ai_family = hints.ai_family;
    if (is_stream(hints.ai_qp_type)) out.ai_socktype = SOCK_STREAM;
    if (hints.ai_qp_type == IBV_QPT_UD) out.ai_socktype = SOCK_DGRAM;
    if (hints.ai_port_space == RDMA_PS_TCP) out.ai_protocol = IPPROTO_TCP;
    if (hints.ai_port_space == RDMA_PS_UDP || hints.ai_port_space == RDMA_PS_IPOIB)
        out.ai_protocol = IPPROTO_UDP;
    if (hints.ai_port_space == RDMA_PS_IB && out.ai_socktype)
        out.ai_protocol = out.ai_socktype == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;
    return out;
}

bool copy_address(const sockaddr* from, socklen_t length, sockaddr*& to, socklen_t& to_length) {
    to = static_cast<sockaddr*>(std::malloc(length));
    if (!to) return false;
    std::memcpy(to, from, length);
    to_length = length;
    return true;
}

// A GID looks like an IPv6 address: who gives one, as a number, may have it as an address of InfiniBand.
bool wants_infiniband(const rdma_addrinfo& hints, const addrinfo& found) {
    return hints.ai_flags & RAI_FAMILY && hints.ai_family == kFamilyIb && hints.ai_flags & RAI_NUMERICHOST &&
           found.ai_family == AF_INET6;
}

// What the resolver found, in the family that the hints ask for.
bool convert_address(const addrinfo& from, const rdma_addrinfo& hints, rdma_addrinfo& to, sockaddr*& address,
                     socklen_t& length) {
    to.ai_family = from.ai_family;
    if (!wants_infiniband(hints, from)) return copy_address(from.ai_addr, from.ai_addrlen, address, length);
    to.ai_family = kFamilyIb;
    cm::Endpoint endpoint;
    if (to_endpoint(from.ai_addr, endpoint) != 0) return false;
    endpoint.family = kFamilyIb;
    sockaddr_storage converted;
    to_sockaddr(endpoint, static_cast<rdma_port_space>(to.ai_port_space), converted);
    const auto* plain = static_cast<const sockaddr*>(static_cast<const void*>(&converted));
    return copy_address(plain, sizeof(sockaddr_ib), address, length);
}

bool convert(const addrinfo& from, const rdma_addrinfo& hints, rdma_addrinfo& to) {
    to.ai_qp_type = hints.ai_qp_type                 ? hints.ai_qp_type
                    : from.ai_socktype == SOCK_DGRAM ? static_cast<int>(IBV_QPT_UD)
                                                     : static_cast<int>(IBV_QPT_RC);
    to.ai_port_space = hints.ai_port_space               ? hints.ai_port_space
                       : from.ai_protocol == IPPROTO_UDP ? static_cast<int>(RDMA_PS_UDP)
                                                         : static_cast<int>(RDMA_PS_TCP);
    if (hints.ai_flags & RAI_PASSIVE) {
        to.ai_flags = RAI_PASSIVE;
        return convert_address(from, hints, to, to.ai_src_addr, to.ai_src_len);
    }
    return convert_address(from, hints, to, to.ai_dst_addr, to.ai_dst_len);
}

// Neither a name nor a service: the hints are the answer.
bool copy_hints(const rdma_addrinfo& hints, rdma_addrinfo& to) {
    to.ai_flags = hints.ai_flags;
    to.ai_family = hints.ai_family;
    to.ai_qp_type = hints.ai_qp_type;
    to.ai_port_space = hints.ai_port_space;
    return !hints.ai_dst_len ||
           copy_address(hints.ai_dst_addr, hints.ai_dst_len, to.ai_dst_addr, to.ai_dst_len);
}

}  // namespace
}  // namespace verbena::rdmacm

using namespace verbena;
using namespace verbena::rdmacm;

extern "C" {

int rdma_getaddrinfo(const char* node, const char* service, const rdma_addrinfo* hints, rdma_addrinfo** res) {
    if (const Fault fault{"rdma_getaddrinfo"}) return fault.minus_one();
    Call call("rdma_getaddrinfo");
    if (!res) return fail_minus_one(EINVAL, "res is NULL: nowhere to put the answer");
    if (!node && !service && !hints)
        return fail_minus_one(EINVAL, "neither a node, a service nor hints are given");
    if (hints && hints->ai_flags & kAddrinfoSa)
        return fail_minus_one(EOPNOTSUPP, "RAI_SA asks a subnet administrator; RoCE has none, use RAI_DNS");
    if (!host::devices()) return -1;
    Addrinfo answer(static_cast<rdma_addrinfo*>(std::calloc(1, sizeof(rdma_addrinfo))));
    if (!answer) return fail_minus_one(ENOMEM, "no memory for an rdma_addrinfo");

    const rdma_addrinfo none{};
    const rdma_addrinfo& wanted = hints ? *hints : none;
    bool copied;
    if (node || service) {
        addrinfo asked = resolver_hints(wanted);
        addrinfo* found = nullptr;
        if (int code = getaddrinfo(node, service, hints ? &asked : nullptr, &found)) {
            const int error = code == EAI_SYSTEM ? errno : code == EAI_MEMORY ? ENOMEM : EINVAL;
            fail(error, "%s:%s: %s", node ? node : "", service ? service : "", gai_strerror(code));
            return code;
        }
        copied = convert(*found, wanted, *answer);
        freeaddrinfo(found);
    } else {
        copied = copy_hints(wanted, *answer);
    }
    if (copied && !answer->ai_src_len && wanted.ai_src_len)
        copied = copy_address(wanted.ai_src_addr, wanted.ai_src_len, answer->ai_src_addr, answer->ai_src_len);
    if (!copied) return fail_minus_one(ENOMEM, "no memory for an address");
    *res = answer.release();
    return 0;
}

void rdma_freeaddrinfo(rdma_addrinfo* res) {
    while (res) {
        rdma_addrinfo* next = res->ai_next;
        std::free(res->ai_connect);
        std::free(res->ai_route);
        std::free(res->ai_src_canonname);
        std::free(res->ai_dst_canonname);
        std::free(res->ai_src_addr);
        std::free(res->ai_dst_addr);
        std::free(res);
        res = next;
    }
}
}
