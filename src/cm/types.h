// The connection manager's vocabulary: addresses, parameters, events. Plain data: the same structures travel
// between the daemon and the programs (host/protocol.h), so they are trivially copyable and hold no pointers.
#pragma once

#include <array>
#include <cstdint>

#include "base/gid.h"

namespace verbena::cm {

// Values as the ecosystem's headers have them (rdma_cma.h).
enum class PortSpace : std::uint16_t { ipoib = 0x0002, tcp = 0x0106, udp = 0x0111, ib = 0x013f };
enum class QpType : std::uint8_t { rc = 2, uc = 3, ud = 4, xrc_send = 9, xrc_recv = 10 };

// An IP address and a port, as rdma_cm programs name endpoints. IPv4 is kept mapped (::ffff:a.b.c.d).
struct Endpoint {
    Gid address;                 // all zero, or ::ffff:0.0.0.0: any
    std::uint16_t port = 0;      // host byte order
    std::uint16_t family = 0;    // AF_INET, AF_INET6 or AF_IB; 0: not set
    std::uint32_t scope_id = 0;  // interface index of a link-local address
    std::uint32_t flow_info = 0;

    bool is_any() const { return address.is_zero() || (address.is_ipv4() && address.ipv4() == 0); }
    bool is_loopback() const { return address.is_loopback(); }
};

inline constexpr std::uint32_t kNoDevice = 0xffffffff;

// What a route was resolved to: everything that an address vector and a path record need.
struct Route {
    Gid source_gid;
    Gid destination_gid;
    std::uint32_t device = kNoDevice;   // device index, as in host::DeviceTable
    std::uint32_t interface_index = 0;  // of the device's netdev
    std::uint16_t gid_index = 0;        // of source_gid
    std::uint8_t path_mtu = 0;          // ibv_mtu: 1 = 256 ... 5 = 4096
    std::uint8_t traffic_class = 0;
    std::uint8_t hop_limit = 64;
    std::uint8_t packet_life_time = 18;  // 4.096 us * 2^n; the kernel's for RoCE
    std::uint16_t reserved = 0;
    std::uint32_t flow_label = 0;
};

inline constexpr std::size_t kMaxPrivateData = 224;  // room for every message's user bytes
inline constexpr std::size_t kReqUserData = 56;      // a REQ's
inline constexpr std::size_t kRepUserData = 196;

// rdma_conn_param, and what a request or reply carries of it.
struct ConnectParameters {
    std::uint8_t responder_resources = 0;
    std::uint8_t initiator_depth = 0;
    std::uint8_t flow_control = 0;
    std::uint8_t retry_count = 0;      // 0..7
    std::uint8_t rnr_retry_count = 0;  // 0..7
    std::uint8_t srq = 0;
    QpType qp_type = QpType::rc;
    std::uint8_t private_data_length = 0;
    std::uint32_t qp_number = 0;
    std::uint32_t qkey = 0;  // UD
    std::uint32_t starting_psn =
        0;  // the caller's receive PSN (what the peer shall send with); 0: the manager's own
    std::uint32_t ece_vendor_id = 0;
    std::uint32_t ece_attribute_mod = 0;
    std::array<std::uint8_t, kMaxPrivateData> private_data{};
};

// Values of enum rdma_cm_event_type.
enum class EventType : std::uint8_t {
    addr_resolved = 0,
    addr_error,
    route_resolved,
    route_error,
    connect_request,
    connect_response,
    connect_error,
    unreachable,
    rejected,
    established,
    disconnected,
    device_removal,
    multicast_join,
    multicast_error,
    addr_change,
    timewait_exit,
    addrinfo_resolved,
    addrinfo_error,
    user,
    internal,
};

using IdNumber = std::uint32_t;    // names an id within the daemon; 0 is never one
using FileNumber = std::uint32_t;  // names an event channel's file within the daemon; 0 is never one

enum class IdState : std::uint8_t {
    idle,
    address_bound,
    address_query,
    address_resolved,
    route_query,
    route_resolved,
    connect,      // REQ sent or received, or REP sent or received
    established,  // not a kernel state of its own; for ps and reports
    disconnect,
    listen,
    device_removed,
    destroying,
};

// What rdma_bind_addr, rdma_listen and the event handling of the library need to know of an id.
struct IdInfo {
    IdNumber id = 0;
    IdState state = IdState::idle;
    QpType qp_type = QpType::rc;
    PortSpace port_space = PortSpace::tcp;
    Endpoint local;
    Endpoint remote;
    Route route;                   // device == kNoDevice until one is known
    std::uint64_t node_guid = 0;   // of the device, network byte order
    std::uint32_t path_count = 0;  // 0 before resolve_route, then 1
    std::uint32_t local_qkey = 0;
};

enum : std::uint8_t { kInit = 1, kReadyToReceive = 2, kReadyToSend = 3 };  // enum ibv_qp_state

// What rdma_init_qp_attr answers: the attributes of the next transition, and their ibv_qp_attr_mask. A mask
// of 0 stands for a transition that is not described.
struct QpTransition {
    std::uint32_t mask = 0;
    std::uint8_t state = 0;  // ibv_qp_state
    std::uint8_t path_mtu = 0;
    std::uint8_t port = 1;
    std::uint8_t access = 0;
    std::uint32_t qkey = 0;
    std::uint32_t receive_psn = 0;
    std::uint32_t send_psn = 0;
    std::uint32_t destination_qp = 0;
    std::uint8_t max_rd_atomic = 0;
    std::uint8_t max_dest_rd_atomic = 0;
    std::uint8_t min_rnr_timer = 0;
    std::uint8_t timeout = 0;
    std::uint8_t retry_count = 0;
    std::uint8_t rnr_retry = 0;
    std::uint8_t reserved[2] = {};
    Route route;
};

struct Event {
    EventType type = EventType::addr_resolved;
    std::uint8_t reserved[3] = {};
    std::int32_t status = 0;  // 0, a negative errno, or a positive reject reason / SIDR status
    IdNumber id = 0;          // the id that it happened to; connect_request: the new child
    IdNumber listen_id = 0;   // connect_request: the listener
    std::uint64_t user_handle =
        0;  // what the program registered for `id` (connect_request: for the listener)
    // User events; multicast: the join's handle; disconnected: when, at the earliest, timewait_exit may
    // follow (CLOCK_MONOTONIC, ns), before which nothing comes but what tells of the device.
    std::uint64_t argument = 0;
    ConnectParameters
        connection;  // connect_request, connect_response, established, rejected; UD: qp_number, qkey
    Route ud_route;  // UD established, connect_request, multicast_join: the address vector
    std::array<char, 160>
        note{};  // what else is known of a failure's cause, to go behind its reason; a C string
    // What the program's library needs next after addr_resolved, route_resolved, connect_request (of the
    // child) and connect_response, so that it does not ask: a question is two changes of process. Otherwise
    // info.id is 0.
    IdInfo info;
    std::array<QpTransition, 3> transitions{};  // to INIT, RTR and RTS, as far as they can be told
};

}  // namespace verbena::cm
