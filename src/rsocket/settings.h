// The options of a socket, as values. options.cpp translates them from and to rsetsockopt's.
#pragma once

#include <infiniband/sa.h>
#include <sys/socket.h>

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "rsocket/defaults.h"

namespace verbena::rsocket {

struct Settings {
    // Of the queues and buffers; they count when the connection is made.
    std::uint32_t receive_buffer = defaults().receive_buffer;
    std::uint32_t send_buffer = defaults().send_buffer;
    std::uint16_t send_queue = defaults().send_queue;
    std::uint16_t receive_queue = defaults().receive_queue;
    std::uint16_t inline_data = defaults().inline_data;
    std::uint16_t map_entries = defaults().map_entries;
    std::vector<ibv_path_data> route;

    bool reuse_address = false;
    bool only_v6 = false;
    bool keepalive = false;
    bool no_delay = false;
    bool inline_urgent = false;
    bool broadcast = false;
    linger lingering{0, 0};
    int keepalive_idle = 7200;  // seconds
    int keepalive_interval = 75;
    int keepalive_count = 9;
    int max_segment = 0;  // 0: what the connection has
    int type_of_service = 0;
    int traffic_class = 0;
    Duration receive_timeout = 0;  // 0: none
    Duration send_timeout = 0;
};

}  // namespace verbena::rsocket
