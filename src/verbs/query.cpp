// What a device and its port say of themselves (IBA 11.2.1; ibv_query_device(3), ibv_query_port(3),
// ibv_query_gid(3)).

#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "adapter/adapter.h"
#include "adapter/clock.h"
#include "base/call_fault.h"
#include "base/reason.h"
#include "faults/program.h"
#include "host/port.h"
#include "verbs/limits.h"
#include "verbs/objects.h"
#include "verbs/process.h"
#include "verbs/queries.h"
#include "wire/bth.h"

#undef ibv_query_port

namespace verbena::verbs {
namespace {

// The values of the headers of any age; see ibv_query_device_ex(3).
void fill_device(const Device& device, ibv_device_attr& attr) {
    attr = {};
    std::snprintf(attr.fw_ver, sizeof attr.fw_ver, "%s", VERBENA_BUILD_ID);
    attr.node_guid = attr.sys_image_guid = device.node_guid;
    attr.max_mr_size = UINT64_MAX;
    attr.page_size_cap = 0xfffff000;
    attr.vendor_id = kVendorId;
    attr.vendor_part_id = kVendorPartId;
    attr.hw_ver = 1;
    attr.max_qp = kMaxQps;
    attr.max_qp_wr = kMaxQpWr;
    attr.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_SYS_IMAGE_GUID |
                            IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE |
                            IBV_DEVICE_XRC | IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
                            IBV_DEVICE_MEM_MGT_EXTENSIONS;
    attr.max_sge = kMaxSge;
    attr.max_sge_rd = kMaxSge;
    attr.max_cq = kMaxCqs;
    attr.max_cqe = kMaxCqe;
    attr.max_mr = kMaxRegions - 1;
    attr.max_mw = kMaxWindows;
    attr.max_pd = kMaxPds;
    attr.max_srq = kMaxSrqs;
    attr.max_srq_wr = kMaxSrqWr;
    attr.max_srq_sge = kMaxSge;
    attr.max_qp_rd_atom = kMaxRdAtomic;
    attr.max_res_rd_atom = kMaxRdAtomic * kMaxQps;
    attr.max_qp_init_rd_atom = kMaxRdAtomic;
    attr.atomic_cap = IBV_ATOMIC_GLOB;  // std::atomic operations: atomic for the CPU as well
    attr.max_pkeys = 1;
    attr.max_ah = kMaxAddressHandles;
    attr.max_mcast_grp = adapter::kMaxGroups;
    attr.max_mcast_qp_attach = adapter::kMaxGroupMembers;
    attr.max_total_mcast_qp_attach = adapter::kMaxGroups * adapter::kMaxGroupMembers;
    attr.local_ca_ack_delay = 15;
    attr.phys_port_cnt = 1;
}

// Programs that use all devices at once (UCX, NCCL) take those whose port is active. Another host is not
// reached by loopback, and this one is by any device: so it is there for programs that have opened no other
// themselves, or that were told which to see.
bool is_beside_another(Context& context, const host::Device& device) {
    if (!device.loopback || context.process->forked() || std::getenv("VERBENA_DEVICES")) return false;
    bool beside = false;
    context.process->for_each_context([&](Context& other) {
        host::Device its;
        beside = beside || (!other.of_library && find_device(other, its) && !its.loopback && its.active);
    });
    return beside;
}

int fill_port(Context& context, unsigned port, abi::PortAttr& out) {
    out = {};
    if (int error = check_port(port)) return error;
    host::Device device;
    ibv_port_attr& attr = out.base;
    attr.state = IBV_PORT_DOWN;
    attr.phys_state = 3;            // disabled
    attr.active_mtu = IBV_MTU_256;  // what a program may reckon with, of a device that is gone
    if (find_device(context, device)) {
        const host::Port known = host::port_of(device);
        attr.active_mtu = static_cast<ibv_mtu>(device.active_mtu);
        attr.active_width = known.active_width;
        attr.active_speed = known.active_speed;
        if (!faults::link_is_down() && !is_beside_another(context, device)) {
            attr.state = static_cast<ibv_port_state>(known.state);
            attr.phys_state = known.phys_state;
        }
    }
    attr.max_mtu = IBV_MTU_4096;
    attr.gid_tbl_len = host::kMaxGids;
    attr.port_cap_flags = host::kPortCapabilities;
    static_assert(host::kPortCapabilities == (IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS));
    attr.max_msg_sz = kMaxMessage;
    attr.pkey_tbl_len = 1;
    attr.max_vl_num = 1;
    attr.link_layer = IBV_LINK_LAYER_ETHERNET;
    attr.flags = IBV_QPF_GRH_REQUIRED;  // as of every RoCE port: resolve_path() demands it
    return 0;
}

int query_gid_entry(Context& context, unsigned port, unsigned index, host::Device& device) {
    if (int error = check_port(port)) return error;
    if (index >= host::kMaxGids)
        return fail(EINVAL, "GID index %u; the table has %u entries", index, host::kMaxGids);
    return require_device(context, device);
}

void fill_entry(const host::Device& device, unsigned index, ibv_gid_entry& entry) {
    entry = {};
    std::memcpy(entry.gid.raw, device.gids[index].bytes.data(), 16);
    entry.gid_index = index;
    entry.port_num = 1;
    entry.gid_type = IBV_GID_TYPE_ROCE_V2;
    entry.ndev_ifindex = device.interface_index;
}

}  // namespace

bool find_device(Context& context, host::Device& out) {
    const host::DeviceTable* table = context.process->devices();
    return !context.failed && table && host::copy_device(*table, context.device->slot, out) &&
           out.index == context.device->index;
}

int require_device(Context& context, host::Device& out) {
    return find_device(context, out) ? 0 : fail(EIO, "the device is gone, or has failed");
}

int check_port(unsigned port) {
    return port == 1 ? 0 : fail(EINVAL, "port %u; the device has port 1 only", port);
}

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr, std::size_t size) {
    Call call("ibv_query_port");
    abi::PortAttr all;
    if (int error = fill_port(*Context::of(context), port, all)) return error;
    std::memset(attr, 0, size);
    std::memcpy(attr, &all, std::min(size, sizeof all));
    return 0;
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attr,
                    std::size_t size) {
    Call call("ibv_query_device_ex");
    if (const Fault fault{"ibv_query_device_ex"}) return fault.error();
    if (input && input->comp_mask) return fail(EINVAL, "comp_mask 0x%x is unknown", input->comp_mask);
    if (size < sizeof attr->orig_attr) return fail(EINVAL, "the structure is too small: %zu bytes", size);
    ibv_device_attr_ex all{};
    fill_device(*Context::of(context)->device, all.orig_attr);
    all.phys_port_cnt_ex = 1;
    // Newer than the headers: FLUSH of global visibility, ATOMIC WRITE.
    constexpr std::uint64_t kFlushGlobal = std::uint64_t{1} << 38, kAtomicWrite = std::uint64_t{1} << 40;
    all.device_cap_flags_ex =
        static_cast<std::uint32_t>(all.orig_attr.device_cap_flags) | kFlushGlobal | kAtomicWrite;
    // All memory is the CPU's, so every operation can be on demand.
    constexpr std::uint32_t kOdpFlush = 1u << 6, kOdpAtomicWrite = 1u << 7;  // newer, too
    constexpr std::uint32_t kAllOdp = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
                                      IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC |
                                      IBV_ODP_SUPPORT_SRQ_RECV | kOdpFlush | kOdpAtomicWrite;
    all.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
    all.odp_caps.per_transport_caps.rc_odp_caps = kAllOdp;
    all.xrc_odp_caps = kAllOdp;
    all.odp_caps.per_transport_caps.uc_odp_caps =
        IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_SRQ_RECV;
    all.odp_caps.per_transport_caps.ud_odp_caps =
        IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
    all.max_dm_size = kMaxDeviceMemory;
    all.packet_pacing_caps = {1, UINT32_MAX, 1u << IBV_QPT_RC | 1u << IBV_QPT_UC | 1u << IBV_QPT_UD};
    all.cq_mod_caps = {UINT16_MAX, UINT16_MAX};  // completions, microseconds: what ibv_modify_cq can say
    all.completion_timestamp_mask = UINT64_MAX;
    all.hca_core_clock = kClockKilohertz;
    std::memset(attr, 0, size);
    std::memcpy(attr, &all, std::min(size, sizeof all));
    return 0;
}

int query_rt_values(ibv_context*, ibv_values_ex* values) {
    Call call("ibv_query_rt_values_ex");
    if (const Fault fault{"ibv_query_rt_values_ex"}) return fault.error();
    if (values->comp_mask & ~std::uint32_t{IBV_VALUES_MASK_RAW_CLOCK})
        return fail(EOPNOTSUPP, "comp_mask 0x%x; IBV_VALUES_MASK_RAW_CLOCK is what there is",
                    values->comp_mask);
    // Cycles of the device's clock, as adapters answer: not split into seconds.
    if (values->comp_mask) values->raw_clock = {0, adapter::now()};
    return 0;
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

extern "C" {

int ibv_query_device(struct ibv_context* context, struct ibv_device_attr* attr) {
    if (const Fault fault{"ibv_query_device"}) return fault.error();
    fill_device(*Context::of(context)->device, *attr);
    return 0;
}

int ibv_query_port(struct ibv_context* context, uint8_t port, struct _compat_ibv_port_attr* attr) {
    if (const Fault fault{"ibv_query_port"}) return fault.error();
    Call call("ibv_query_port");
    abi::PortAttr all;
    if (int error = fill_port(*Context::of(context), port, all)) return error;
    std::memcpy(static_cast<void*>(attr), &all, abi::kOldestPortAttrSize);
    return 0;
}

int ibv_query_port_speed(struct ibv_context* context, uint32_t port, uint64_t* speed) {
    if (const Fault fault{"ibv_query_port_speed"}) return fault.error();
    Call call("ibv_query_port_speed");
    if (int error = check_port(port)) return error;
    host::Device device;
    if (int error = require_device(*Context::of(context), device)) return error;
    *speed = host::port_of(device).speed / 100;  // in 100 Mbit/s
    return 0;
}

int ibv_query_gid(struct ibv_context* context, uint8_t port, int index, union ibv_gid* gid) {
    if (const Fault fault{"ibv_query_gid"}) return fault.minus_one();
    Call call("ibv_query_gid");
    host::Device device;
    if (int error = query_gid_entry(*Context::of(context), port, static_cast<unsigned>(index), device)) {
        errno = error;
        return -1;
    }
    Gid found =
        device.gid_valid[static_cast<unsigned>(index)] ? device.gids[static_cast<unsigned>(index)] : Gid{};
    std::memcpy(gid->raw, found.bytes.data(), 16);
    return 0;
}

int _ibv_query_gid_ex(struct ibv_context* context, uint32_t port, uint32_t index, struct ibv_gid_entry* entry,
                      uint32_t flags, size_t entry_size) {
    if (const Fault fault{"_ibv_query_gid_ex"}) return fault.error();
    Call call("ibv_query_gid_ex");
    if (const Fault fault{"ibv_query_gid_ex"}) return fault.error();
    if (flags) return fail(EINVAL, "flags 0x%x; none are defined", flags);
    if (entry_size < sizeof *entry) return fail(EINVAL, "entry size %zu is too small", entry_size);
    host::Device device;
    if (int error = query_gid_entry(*Context::of(context), port, index, device)) return error;
    // Programs find a table's end by asking for every index (perftest does): no failure, so no line in the
    // log.
    if (!device.gid_valid[index]) return errno = ENODATA;
    fill_entry(device, index, *entry);
    return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context* context, struct ibv_gid_entry* entries, size_t max_entries,
                             uint32_t flags, size_t entry_size) {
    Call call("ibv_query_gid_table");
    if (const Fault fault{"_ibv_query_gid_table"}) return -fault.error();
    if (flags) return -fail(EINVAL, "flags 0x%x; none are defined", flags);
    if (entry_size < sizeof *entries) return -fail(EINVAL, "entry size %zu is too small", entry_size);
    host::Device device;
    if (int error = require_device(*Context::of(context), device)) return -error;
    std::size_t count = 0;
    auto* place = reinterpret_cast<char*>(entries);
    for (unsigned index = 0; index < host::kMaxGids; index++) {
        if (!device.gid_valid[index]) continue;
        if (count == max_entries) return -fail(EINVAL, "the table has more than %zu GIDs", max_entries);
        ibv_gid_entry entry;
        fill_entry(device, index, entry);
        std::memcpy(place + count++ * entry_size, &entry, sizeof entry);
    }
    return static_cast<ssize_t>(count);
}

int ibv_query_gid_type(struct ibv_context* context, uint8_t port, unsigned int index,
                       enum ibv_gid_type_sysfs* type) {
    if (const Fault fault{"ibv_query_gid_type"}) return fault.minus_one();
    Call call("ibv_query_gid_type");
    host::Device device;
    if (int error = query_gid_entry(*Context::of(context), port, index, device)) {
        errno = error;
        return -1;
    }
    // An empty entry is of the first type, as ever.
    *type = device.gid_valid[index] ? IBV_GID_TYPE_SYSFS_ROCE_V2 : IBV_GID_TYPE_SYSFS_IB_ROCE_V1;
    return 0;
}

int ibv_query_pkey(struct ibv_context*, uint8_t port, int index, __be16* pkey) {
    if (const Fault fault{"ibv_query_pkey"}) return fault.minus_one();
    Call call("ibv_query_pkey");
    if (check_port(port) != 0) return -1;
    if (index != 0) return fail_minus_one(EINVAL, "P_Key index %d; the table has one entry", index);
    *pkey = wire::kDefaultPkey;  // the same in either byte order
    return 0;
}

int ibv_get_pkey_index(struct ibv_context*, uint8_t port, __be16 pkey) {
    if (const Fault fault{"ibv_get_pkey_index"}) return fault.minus_one();
    Call call("ibv_get_pkey_index");
    if (check_port(port) != 0) return -1;
    if (pkey != wire::kDefaultPkey)
        return fail_minus_one(ENOENT, "only the default P_Key 0xffff is in the table");
    return 0;
}

}  // extern "C"
