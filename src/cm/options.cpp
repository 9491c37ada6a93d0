// rdma_set_option.

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/reason.h"
#include "cm/state.h"
#include "cm/text.h"
#include "wire/byte_order.h"

namespace verbena::cm {
namespace {

// rdma_cma.h's numbers.
enum : int { kLevelId = 0, kLevelIb = 1 };
enum : int { kTypeOfService = 0, kReuseAddress = 1, kFamilyOnly = 2, kAckTimeout = 3 };
enum : int { kPath = 1 };

// struct ibv_path_data: flags, reserved, and a 64-byte path record in network byte order.
constexpr std::size_t kPathDataLength = 72;
constexpr std::uint32_t kPathGmp = 1 << 0;
constexpr std::uint32_t kPathPrimary = 1 << 1;
constexpr std::uint32_t kPathBidirectional = 1 << 3 | 1 << 5;  // outbound, and the same way back inbound
constexpr std::uint8_t kMaxTimeout = 31;                       // 5 bits

// Where the path record (IBA 15.2.5.16) has what a RoCE route takes of it. A selector is ignored, as in
// Linux.
constexpr std::size_t kRecordAt = 8, kFlowLabelAndHopLimitAt = kRecordAt + 44,
                      kTrafficClassAt = kRecordAt + 48, kMtuAt = kRecordAt + 54, kLifeTimeAt = kRecordAt + 56;
constexpr std::uint8_t kWithoutSelector = 0x3f;

template <class T>
bool read(std::span<const std::uint8_t> from, T& value) {
    if (from.size() != sizeof value) return false;
    std::memcpy(&value, from.data(), sizeof value);
    return true;
}

int wrong_size(std::size_t size, std::size_t wanted) {
    return fail(EINVAL, "the option's value has %zu bytes; it must have %zu", size, wanted);
}

}  // namespace

int Manager::State::set_option(Id& id, int level, int option, std::span<const std::uint8_t> value) {
    if (level == kLevelIb && option == kPath) return set_path(id, value);
    if (level != kLevelId) return fail(ENOSYS, "there is no option %d at level %d", option, level);
    std::uint8_t byte = 0;
    int number = 0;
    switch (option) {
        case kTypeOfService:
            if (!read(value, byte)) return wrong_size(value.size(), sizeof byte);
            id.traffic_class = byte;
            id.traffic_class_set = true;
            return 0;
        case kReuseAddress:
            if (!read(value, number)) return wrong_size(value.size(), sizeof number);
            if (id.state != IdState::idle && (!number || id.state == IdState::listen))
                return wrong_state(id, number ? "anything but listening to share its address"
                                              : "idle to stop sharing its address");
            id.reuse_address = number != 0;
            if (PortClaim* claim = ports.find(id.port_space, id.local.port, id.number))
                claim->reuse = id.reuse_address;
            return 0;
        case kFamilyOnly:
            if (!read(value, number)) return wrong_size(value.size(), sizeof number);
            if (id.state != IdState::idle && id.state != IdState::address_bound)
                return wrong_state(id, "idle or bound to choose its address family");
            id.family_only = number != 0;
            id.family_only_set = true;
            if (PortClaim* claim = ports.find(id.port_space, id.local.port, id.number))
                claim->family_only = id.family_only;
            return 0;
        case kAckTimeout:
            if (!read(value, byte)) return wrong_size(value.size(), sizeof byte);
            if (id.qp_type != QpType::rc && id.qp_type != QpType::xrc_send)
                return fail(EINVAL, "an ACK timeout is for RC and XRC initiators only");
            if (byte > kMaxTimeout) return fail(EINVAL, "the ACK timeout %u does not fit in 5 bits", byte);
            id.ack_timeout = byte;
            id.ack_timeout_set = true;
            return 0;
        default:
            return fail(ENOSYS, "there is no option %d at level %d", option, level);
    }
}

// A path record from the program instead of rdma_resolve_route. Over RoCE the addresses are known already,
// and stay. An MTU or a hop limit of 0 could carry nothing: it stands for the one that the route has anyway.
int Manager::State::set_path(Id& id, std::span<const std::uint8_t> value) {
    if (value.empty() || value.size() % kPathDataLength)
        return fail(EINVAL, "%zu bytes are no array of struct ibv_path_data (%zu each)", value.size(),
                    kPathDataLength);
    const std::uint8_t* found = nullptr;
    for (std::size_t at = 0; at < value.size() && !found; at += kPathDataLength) {
        std::uint32_t flags;
        std::memcpy(&flags, value.data() + at, sizeof flags);
        if (flags == (kPathGmp | kPathPrimary | kPathBidirectional)) found = value.data() + at;
    }
    if (!found) return fail(EINVAL, "none of the path records is GMP, PRIMARY and BIDIRECTIONAL");
    if (id.state != IdState::address_resolved) return wrong_state(id, "address resolved to get a path");
    settle_route(id);
    Route& route = id.route;
    const std::uint32_t label_and_limit = wire::load_be32(found + kFlowLabelAndHopLimitAt);
    const auto mtu = static_cast<std::uint8_t>(found[kMtuAt] & kWithoutSelector);
    const auto life_time = static_cast<std::uint8_t>(found[kLifeTimeAt] & kWithoutSelector);
    route.flow_label = label_and_limit >> 8 & wire::kFlowLabelMask;
    if (label_and_limit & 0xff) route.hop_limit = static_cast<std::uint8_t>(label_and_limit);
    if (mtu) route.path_mtu = std::min(mtu, route.path_mtu);
    route.traffic_class = found[kTrafficClassAt];
    route.packet_life_time = std::min(life_time, kMaxTimeout);
    deliver(id, EventType::route_resolved, 0);
    return 0;
}

}  // namespace verbena::cm
