// What an administrator sets in the files of /etc/rdma/rsocket, as rsocket(7) lists them.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "verbs/limits.h"

namespace verbena::rsocket {

inline constexpr std::uint16_t kMostInline = verbs::kMaxInline;  // a queue pair refuses more

struct Defaults {
    std::uint32_t receive_buffer = 1u << 19;  // mem_default, bytes
    std::uint32_t send_buffer = 1u << 19;     // wmem_default
    std::uint16_t send_queue = 384;           // sqsize_default, requests
    std::uint16_t receive_queue = 384;        // rqsize_default
    std::uint16_t inline_data = 64;           // inline_default, bytes
    std::uint16_t map_entries = 0;            // iomap_size
    Duration polling_time = 10 * kMicrosecond;
};

// Read once; settings that are missing or no numbers keep their default.
const Defaults& defaults();

}  // namespace verbena::rsocket
