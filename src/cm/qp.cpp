// The attributes that a QP needs for its next state, as rdma_init_qp_attr gives them.

#include <cerrno>

#include "base/reason.h"
#include "cm/state.h"
#include "cm/text.h"

namespace verbena::cm {
namespace {

// enum ibv_qp_state, ibv_qp_attr_mask and ibv_access_flags.
constexpr std::uint8_t kError = 6;
constexpr std::uint32_t kState = 1 << 0;
constexpr std::uint32_t kAccessFlags = 1 << 3;
constexpr std::uint32_t kPkeyIndex = 1 << 4;
constexpr std::uint32_t kPort = 1 << 5;
constexpr std::uint32_t kQkey = 1 << 6;
constexpr std::uint32_t kAddressVector = 1 << 7;
constexpr std::uint32_t kPathMtu = 1 << 8;
constexpr std::uint32_t kTimeout = 1 << 9;
constexpr std::uint32_t kRetryCount = 1 << 10;
constexpr std::uint32_t kRnrRetry = 1 << 11;
constexpr std::uint32_t kReceivePsn = 1 << 12;
constexpr std::uint32_t kMaxRdAtomic = 1 << 13;
constexpr std::uint32_t kMinRnrTimer = 1 << 15;
constexpr std::uint32_t kSendPsn = 1 << 16;
constexpr std::uint32_t kMaxDestRdAtomic = 1 << 17;
constexpr std::uint32_t kDestinationQp = 1 << 20;
constexpr std::uint8_t kRemoteWrite = 2;
constexpr std::uint8_t kRemoteRead = 4;
constexpr std::uint8_t kRemoteAtomic = 8;

bool responder(QpType type) { return type == QpType::rc || type == QpType::xrc_recv; }
bool requester(QpType type) { return type == QpType::rc || type == QpType::xrc_send; }

// In which states of a connection each transition can be described.
bool init_possible(ConnectionState state) {
    switch (state) {
        case ConnectionState::req_sent:
        case ConnectionState::mra_req_received:
        case ConnectionState::req_received:
        case ConnectionState::rep_sent:
        case ConnectionState::mra_rep_received:
        case ConnectionState::rep_received:
        case ConnectionState::established:
            return true;
        default:
            return false;
    }
}
bool peer_known(ConnectionState state) {
    return init_possible(state) && state != ConnectionState::req_sent &&
           state != ConnectionState::mra_req_received;
}

}  // namespace

int Manager::State::init_qp_attributes(Id& id, std::uint8_t qp_state, QpTransition& transition) {
    if (!has_device(id)) return fail(EINVAL, "id %u (%s) has no device yet", id.number, to_string(id.state));
    if (qp_state > kError) return fail(EINVAL, "QP state %u is none", qp_state);
    transition = {};
    transition.state = qp_state;
    transition.route = id.route;

    if (id.qp_type == QpType::ud || !id.connection) {
        transition.mask = kState | kPkeyIndex | kPort;
        if (id.qp_type == QpType::ud) {
            if (!id.qkey) id.qkey = kDefaultQkey;
            transition.qkey = id.qkey;
            transition.mask |= kQkey;
        } else {
            transition.mask |= kAccessFlags;  // none before a conversation
        }
        return 0;
    }

    const Connection* connection = connections.find(id.connection);
    bool possible =
        connection && (qp_state == kInit ? init_possible(connection->state) : peer_known(connection->state));
    if (!possible)
        return fail(EINVAL, "the connection of id %u is %s: there is nothing to derive QP state %u from",
                    id.number, connection ? to_string(connection->state) : "gone", qp_state);
    switch (qp_state) {
        case kInit:
            transition.mask = kState | kAccessFlags | kPkeyIndex | kPort;
            transition.access = kRemoteWrite;
            if (connection->responder_resources) transition.access |= kRemoteRead | kRemoteAtomic;
            return 0;
        case kReadyToReceive:
            transition.mask = kState | kAddressVector | kPathMtu | kDestinationQp | kReceivePsn;
            transition.path_mtu = id.route.path_mtu;
            transition.destination_qp = connection->remote_qpn;
            transition.receive_psn = id.receive_psn;
            if (responder(id.qp_type)) {
                transition.mask |= kMaxDestRdAtomic | kMinRnrTimer;
                transition.max_dest_rd_atomic = connection->responder_resources;
                transition.min_rnr_timer = 0;  // 655.36 ms, as Linux gives
            }
            return 0;
        case kReadyToSend:
            transition.mask = kState | kSendPsn;
            transition.send_psn = connection->send_psn;
            if (id.qp_type == QpType::uc) return 0;
            transition.mask |= kTimeout;
            transition.timeout = id.ack_timeout_set ? id.ack_timeout : connection->ack_timeout;
            if (requester(id.qp_type)) {
                transition.mask |= kRetryCount | kRnrRetry | kMaxRdAtomic;
                transition.retry_count = connection->retry_count;
                transition.rnr_retry = connection->rnr_retry;
                transition.max_rd_atomic = connection->initiator_depth;
            }
            return 0;
        default:
            return fail(EINVAL, "only INIT, RTR and RTS are described, not QP state %u", qp_state);
    }
}

}  // namespace verbena::cm
