// Queue pair states and attributes (IBA 10.3.1, 11.2.5), with the values of the ecosystem's headers.
#pragma once

#include <cstdint>

#include "wire/path.h"

namespace verbena::transport {

enum class Service : std::uint8_t { rc = 2, uc = 3, ud = 4, raw_packet = 8, xrc_send = 9, xrc_receive = 10 };

// enum ibv_qp_state
enum class QpState : std::uint8_t { reset = 0, init, rtr, rts, sqd, sqe, error };

const char* to_string(QpState state);

// enum ibv_qp_attr_mask
inline constexpr std::uint32_t kAttrState = 1u << 0;
inline constexpr std::uint32_t kAttrCurrentState = 1u << 1;
inline constexpr std::uint32_t kAttrSqdAsyncNotify = 1u << 2;
inline constexpr std::uint32_t kAttrAccessFlags = 1u << 3;
inline constexpr std::uint32_t kAttrPkeyIndex = 1u << 4;
inline constexpr std::uint32_t kAttrPort = 1u << 5;
inline constexpr std::uint32_t kAttrQkey = 1u << 6;
inline constexpr std::uint32_t kAttrAv = 1u << 7;
inline constexpr std::uint32_t kAttrPathMtu = 1u << 8;
inline constexpr std::uint32_t kAttrTimeout = 1u << 9;
inline constexpr std::uint32_t kAttrRetryCount = 1u << 10;
inline constexpr std::uint32_t kAttrRnrRetry = 1u << 11;
inline constexpr std::uint32_t kAttrRqPsn = 1u << 12;
inline constexpr std::uint32_t kAttrMaxQpRdAtomic = 1u << 13;
inline constexpr std::uint32_t kAttrAltPath = 1u << 14;
inline constexpr std::uint32_t kAttrMinRnrTimer = 1u << 15;
inline constexpr std::uint32_t kAttrSqPsn = 1u << 16;
inline constexpr std::uint32_t kAttrMaxDestRdAtomic = 1u << 17;
inline constexpr std::uint32_t kAttrPathMigState = 1u << 18;
inline constexpr std::uint32_t kAttrCap = 1u << 19;
inline constexpr std::uint32_t kAttrDestQpn = 1u << 20;
inline constexpr std::uint32_t kAttrRateLimit = 1u << 25;

struct Capabilities {
    std::uint32_t max_send_wr = 0;
    std::uint32_t max_receive_wr = 0;
    std::uint32_t max_send_sge = 0;
    std::uint32_t max_receive_sge = 0;
    std::uint32_t max_inline_data = 0;  // bytes
};

// What every message needs of them.
struct Connection {
    wire::Path path;  // from the address vector
    std::uint32_t destination_qp = 0;
    std::uint32_t path_mtu = 1024;  // bytes
    std::uint32_t access = 0;       // memory::Access
    std::uint8_t max_rd_atomic = 0;
};

struct Attributes : Connection {
    QpState state = QpState::reset;
    QpState current_state = QpState::reset;
    std::uint32_t qkey = 0;
    std::uint32_t rq_psn = 0;
    std::uint32_t sq_psn = 0;
    Capabilities capabilities;
    std::uint16_t pkey_index = 0;
    bool sqd_async_notify = false;
    bool draining = false;
    std::uint8_t max_destination_rd_atomic = 0;
    std::uint8_t min_rnr_timer = 0;  // 0..31, IBA table 45
    std::uint8_t port = 0;
    std::uint8_t timeout = 0;      // 0..31, 4.096 us * 2^n; 0: for ever
    std::uint8_t retry_count = 0;  // 0..7
    std::uint8_t rnr_retry = 0;    // 0..7; 7: for ever
    std::uint32_t rate_limit = 0;  // kbit/s; 0: none
    std::uint32_t max_burst = 0;   // bytes that leave without a pause; 0: the usual
};

}  // namespace verbena::transport
