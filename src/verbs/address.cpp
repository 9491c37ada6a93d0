// Address vectors (IBA 11.2.2.1) and address handles: which addresses a packet gets.

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "base/call_fault.h"
#include "base/reason.h"
#include "verbs/objects.h"
#include "verbs/queries.h"
#include "wire/path.h"

namespace verbena::verbs {

int resolve_path(Context& context, const ibv_ah_attr& attr, wire::Path& path) {
    if (!attr.is_global)
        return fail(EINVAL,
                    "ah_attr.is_global is 0; RoCE needs a GRH (is_global=1, grh.dgid, grh.sgid_index)");
    if (attr.port_num != 1)
        return fail(EINVAL, "ah_attr.port_num is %u; the device has port 1 only", attr.port_num);
    host::Device device;
    if (int error = require_device(context, device)) return error;
    unsigned index = attr.grh.sgid_index;
    if (index >= host::kMaxGids || !device.gid_valid[index])
        return fail(EINVAL, "grh.sgid_index %u is empty; %s has GIDs 0 to %u", index,
                    context.device->base.name, device.gid_count ? device.gid_count - 1 : 0);
    path.source = device.gids[index];
    std::memcpy(path.destination.bytes.data(), attr.grh.dgid.raw, 16);
    if (path.destination.is_zero()) return fail(EINVAL, "grh.dgid is zero");
    if (path.source.is_ipv4() != path.destination.is_ipv4())
        return fail(EINVAL, "grh.sgid_index %u is %s but grh.dgid is %s; choose a GID of the same family",
                    index, to_string(path.source).c_str(), to_string(path.destination).c_str());
    path.interface_index = device.interface_index;
    path.traffic_class = attr.grh.traffic_class;
    path.hop_limit = attr.grh.hop_limit ? attr.grh.hop_limit : wire::kDefaultHopLimit;
    path.udp_source_port =
        attr.grh.flow_label ? wire::udp_source_port(attr.grh.flow_label) : std::uint16_t{0};
    return check_route(path);
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

extern "C" {

struct ibv_ah* ibv_create_ah(struct ibv_pd* pd, struct ibv_ah_attr* attr) {
    if (const Fault fault{"ibv_create_ah"}) return fault.null();
    Call call("ibv_create_ah");
    wire::Path path{};
    if (int error = resolve_path(*Context::of(pd->context), *attr, path)) {
        errno = error;
        return nullptr;
    }
    auto* ah = new (std::nothrow) AddressHandle;
    if (!ah) return fail_null(ENOMEM, "no memory");
    ah->base.context = pd->context;
    ah->base.pd = pd;
    ah->path = path;
    Pd::of(pd)->enter();
    return &ah->base;
}

int ibv_destroy_ah(struct ibv_ah* handle) {
    if (const Fault fault{"ibv_destroy_ah"}) return fault.error();
    Pd::of(handle->pd)->leave();
    delete AddressHandle::of(handle);
    return 0;
}

}  // extern "C"
