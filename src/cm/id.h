// One communication id as rdma_cm sees it: its addresses, options and the order of calls. Plain data; the
// rules are in address.cpp, listen.cpp, connect.cpp, options.cpp and multicast.cpp.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "cm/manager.h"
#include "cm/types.h"

namespace verbena::cm {

struct MulticastMembership {
    Endpoint group;
    std::uint64_t handle = 0;
    std::uint64_t events_delivered = 0;
};

struct Id {
    IdNumber number = 0;
    FileNumber file = 0;
    std::uint64_t user_handle = 0;
    PortSpace port_space = PortSpace::tcp;
    QpType qp_type = QpType::rc;
    IdState state = IdState::idle;

    // False for the child of a listener until rdma_accept: its program does not know it by a handle of its
    // own yet, so it gets no events.
    bool accepted = true;

    Endpoint local;
    Endpoint remote;
    bool has_port = false;  // of the port table; a child borrows its listener's
    Route route;
    std::uint8_t path_count = 0;
    std::uint64_t query_token = 0;  // of the neighbour query under way
    bool address_told = false;      // its program has the event
    Gid bound_address;              // what `local` and `route` were before it
    Route bound_route;

    // Options (rdma_set_option).
    bool reuse_address = false;
    bool family_only = false;
    bool family_only_set = false;
    bool traffic_class_set = false;
    bool ack_timeout_set = false;
    std::uint8_t traffic_class = 0;
    std::uint8_t ack_timeout = 0;

    // Listeners.
    int backlog_left = 0;
    // Whose connect_request the program has not taken, as far as is known (State::learn_taken), oldest first.
    std::deque<IdNumber> unread_children;
    std::unique_ptr<TakenRequests> taken;  // nullptr: each is told

    // The conversation.
    std::uint32_t receive_psn = 0;   // random, 24 bits
    std::uint32_t connection = 0;    // local communication id; 0: none yet
    std::uint32_t sidr_request = 0;  // UD: asked (active) or to be answered (passive)
    bool sidr_asked = false;
    std::uint32_t qkey = 0;  // 0: not set
    ConnectParameters remote_parameters;

    std::vector<MulticastMembership> groups;
    std::uint64_t events_delivered = 0;
};

}  // namespace verbena::cm
