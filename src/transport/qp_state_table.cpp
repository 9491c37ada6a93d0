#include "transport/qp_state_table.h"

#include <cerrno>
#include <cstdio>

#include "base/reason.h"
#include "wire/psn.h"

namespace verbena::transport {
namespace {

using enum QpState;

// Attributes that follow the address of a connected service.
constexpr std::uint32_t kConnect = kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn;
constexpr std::uint32_t kConnectResponder = kConnect | kAttrMaxDestRdAtomic | kAttrMinRnrTimer;
constexpr std::uint32_t kStartRequester =
    kAttrTimeout | kAttrRetryCount | kAttrRnrRetry | kAttrSqPsn | kAttrMaxQpRdAtomic;
constexpr std::uint32_t kMigration = kAttrAltPath | kAttrPathMigState;

bool datagram(Service s) { return s == Service::ud; }
bool has_responder(Service s) { return s == Service::rc || s == Service::xrc_receive; }
bool has_reliable_requester(Service s) { return s == Service::rc || s == Service::xrc_send; }

// What may change while the queue pair runs (RTS to RTS, SQD to RTS).
std::uint32_t running(Service s) {
    if (datagram(s)) return kAttrCurrentState | kAttrQkey;
    return kAttrCurrentState | kAttrAccessFlags | kMigration | (has_responder(s) ? kAttrMinRnrTimer : 0);
}

Transition to_init(Service s) {
    return {true, kAttrPkeyIndex | kAttrPort | (datagram(s) ? kAttrQkey : kAttrAccessFlags), 0};
}

Transition init_to_rtr(Service s) {
    if (datagram(s)) return {true, 0, kAttrPkeyIndex | kAttrQkey};
    return {true, has_responder(s) ? kConnectResponder : kConnect,
            kAttrAltPath | kAttrAccessFlags | kAttrPkeyIndex};
}

Transition rtr_to_rts(Service s) {
    std::uint32_t required = kAttrSqPsn;
    if (has_reliable_requester(s)) required = kStartRequester;
    if (s == Service::xrc_receive) required = kAttrTimeout | kAttrSqPsn;
    const std::uint32_t rate = s == Service::xrc_send || s == Service::xrc_receive ? 0 : kAttrRateLimit;
    return {true, required, running(s) | rate};
}

Transition sqd_to_sqd(Service s) {
    if (datagram(s)) return {true, 0, kAttrPkeyIndex | kAttrQkey};
    std::uint32_t optional = kAttrAv | kAttrAccessFlags | kAttrPkeyIndex | kMigration;
    if (s != Service::uc) optional |= kAttrPort | kAttrTimeout;
    if (has_reliable_requester(s)) optional |= kAttrRetryCount | kAttrRnrRetry | kAttrMaxQpRdAtomic;
    if (has_responder(s)) optional |= kAttrMaxDestRdAtomic | kAttrMinRnrTimer;
    return {true, 0, optional};
}

int check_values(const Attributes& a, std::uint32_t mask) {
    if ((mask & kAttrPathMtu) && a.path_mtu != 256 && a.path_mtu != 512 && a.path_mtu != 1024 &&
        a.path_mtu != 2048 && a.path_mtu != 4096)
        return fail(EINVAL, "path_mtu is %u bytes; 256, 512, 1024, 2048 and 4096 exist", a.path_mtu);
    if ((mask & kAttrPort) && a.port != 1)
        return fail(EINVAL, "port_num is %u; the device has port 1 only", a.port);
    if ((mask & kAttrPkeyIndex) && a.pkey_index != 0)
        return fail(EINVAL, "pkey_index is %u; the table has entry 0 only", a.pkey_index);
    if ((mask & kAttrTimeout) && a.timeout > 31) return fail(EINVAL, "timeout is %u; at most 31", a.timeout);
    if ((mask & kAttrRetryCount) && a.retry_count > 7)
        return fail(EINVAL, "retry_cnt is %u; at most 7", a.retry_count);
    if ((mask & kAttrRnrRetry) && a.rnr_retry > 7)
        return fail(EINVAL, "rnr_retry is %u; at most 7", a.rnr_retry);
    if ((mask & kAttrMinRnrTimer) && a.min_rnr_timer > 31)
        return fail(EINVAL, "min_rnr_timer is %u; at most 31", a.min_rnr_timer);
    if ((mask & kAttrMaxQpRdAtomic) && a.max_rd_atomic > kMaxRdAtomicLimit)
        return fail(EINVAL, "max_rd_atomic is %u; at most %u", a.max_rd_atomic, kMaxRdAtomicLimit);
    if ((mask & kAttrMaxDestRdAtomic) && a.max_destination_rd_atomic > kMaxRdAtomicLimit)
        return fail(EINVAL, "max_dest_rd_atomic is %u; at most %u", a.max_destination_rd_atomic,
                    kMaxRdAtomicLimit);
    if ((mask & kAttrDestQpn) && a.destination_qp > 0xffffff)
        return fail(EINVAL, "dest_qp_num is 0x%x; QP numbers have 24 bits", a.destination_qp);
    if ((mask & kAttrAv) && a.path.destination.is_zero())
        return fail(EINVAL, "ah_attr.grh.dgid is zero; RoCE needs the peer's GID");
    return 0;
}

}  // namespace

const char* to_string(QpState state) {
    static constexpr const char* kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
    const auto i = static_cast<unsigned>(state);
    return i < 7 ? kNames[i] : "?";
}

const char* to_string(Service service) {
    switch (service) {
        case Service::rc:
            return "RC";
        case Service::uc:
            return "UC";
        case Service::ud:
            return "UD";
        case Service::raw_packet:
            return "raw packet";
        case Service::xrc_send:
            return "XRC send";
        case Service::xrc_receive:
            return "XRC receive";
    }
    return "?";
}

const char* attribute_name(std::uint32_t bit) {
    switch (bit) {
        case kAttrState:
            return "IBV_QP_STATE";
        case kAttrCurrentState:
            return "IBV_QP_CUR_STATE";
        case kAttrSqdAsyncNotify:
            return "IBV_QP_EN_SQD_ASYNC_NOTIFY";
        case kAttrAccessFlags:
            return "IBV_QP_ACCESS_FLAGS";
        case kAttrPkeyIndex:
            return "IBV_QP_PKEY_INDEX";
        case kAttrPort:
            return "IBV_QP_PORT";
        case kAttrQkey:
            return "IBV_QP_QKEY";
        case kAttrAv:
            return "IBV_QP_AV";
        case kAttrPathMtu:
            return "IBV_QP_PATH_MTU";
        case kAttrTimeout:
            return "IBV_QP_TIMEOUT";
        case kAttrRetryCount:
            return "IBV_QP_RETRY_CNT";
        case kAttrRnrRetry:
            return "IBV_QP_RNR_RETRY";
        case kAttrRqPsn:
            return "IBV_QP_RQ_PSN";
        case kAttrMaxQpRdAtomic:
            return "IBV_QP_MAX_QP_RD_ATOMIC";
        case kAttrAltPath:
            return "IBV_QP_ALT_PATH";
        case kAttrMinRnrTimer:
            return "IBV_QP_MIN_RNR_TIMER";
        case kAttrSqPsn:
            return "IBV_QP_SQ_PSN";
        case kAttrMaxDestRdAtomic:
            return "IBV_QP_MAX_DEST_RD_ATOMIC";
        case kAttrPathMigState:
            return "IBV_QP_PATH_MIG_STATE";
        case kAttrCap:
            return "IBV_QP_CAP";
        case kAttrDestQpn:
            return "IBV_QP_DEST_QPN";
        case kAttrRateLimit:
            return "IBV_QP_RATE_LIMIT";
        default:
            return "an unknown attribute";
    }
}

Transition transition(Service s, QpState from, QpState to) {
    if (to == reset || to == error) return {true, 0, 0};  // from every state
    if (from == reset && to == init) return to_init(s);
    if (from == init && to == init) return {true, 0, to_init(s).required};
    if (from == init && to == rtr) return init_to_rtr(s);
    if (from == rtr && to == rts) return rtr_to_rts(s);
    if (from == rts && to == rts) return {true, 0, running(s) | rtr_to_rts(s).optional};
    if (from == rts && to == sqd) return {true, 0, kAttrSqdAsyncNotify};
    if (from == sqd && to == rts) return {true, 0, running(s)};
    if (from == sqd && to == sqd) return sqd_to_sqd(s);
    // The send queue error state exists for the unreliable services only (IBA 10.3.1.6).
    if (from == sqe && to == rts && datagram(s)) return {true, 0, kAttrCurrentState | kAttrQkey};
    if (from == sqe && to == rts && s == Service::uc) return {true, 0, kAttrCurrentState | kAttrAccessFlags};
    return {};
}

int check_modify(Service service, QpState from, const Attributes& attributes, std::uint32_t mask,
                 QpState& to) {
    if ((mask & kAttrCurrentState) && attributes.current_state != from)
        return fail(EINVAL, "cur_qp_state is %s, but the QP is in %s", to_string(attributes.current_state),
                    to_string(from));
    to = mask & kAttrState ? attributes.state : from;
    const Transition rule = transition(service, from, to);
    if (!rule.allowed)
        return fail(EINVAL, "%s->%s is no transition of an %s QP", to_string(from), to_string(to),
                    to_string(service));
    const std::uint32_t missing = rule.required & ~mask;
    const std::uint32_t forbidden = mask & ~(rule.required | rule.optional | kAttrState);
    for (const std::uint32_t wrong : {missing, forbidden}) {
        if (wrong == 0) continue;
        char names[256] = "";
        int used = 0;
        for (std::uint32_t rest = wrong; rest != 0 && used < 200; rest &= rest - 1)
            used += std::snprintf(names + used, sizeof names - static_cast<std::size_t>(used), "%s%s",
                                  used ? ", " : "", attribute_name(rest & (0 - rest)));
        return fail(EINVAL, "%s->%s of an %s QP %s %s", to_string(from), to_string(to), to_string(service),
                    wrong == missing ? "needs" : "does not take", names);
    }
    return check_values(attributes, mask);
}

}  // namespace verbena::transport
