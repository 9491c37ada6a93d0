// What programs and the daemon say to each other, over one SOCK_SEQPACKET connection per process and one
// socket per event channel. All structures are plain data of this build; the hello carries the protocol
// version, and a mismatch names the side to restart.
//
// A call is one datagram {RequestHeader, request} answered by one datagram {ReplyHeader, reply}; file
// descriptors go along as SCM_RIGHTS where the comment says so. Events are bare cm::Event datagrams on the
// channel's socket.
#pragma once

#include <array>
#include <cstdint>

#include "adapter/port_totals.h"
#include "cm/summary.h"
#include "cm/types.h"

namespace verbena::host {

inline constexpr std::uint32_t kProtocolMagic = 0x56524231;  // "VRB1"
inline constexpr std::uint32_t kProtocolVersion =
    13;  // changes whenever a structure here, in cm/types.h, cm/summary.h or adapter/port_totals.h does

enum class Command : std::uint16_t {
    hello = 1,   // HelloRequest -> HelloReply, with the device table's file and (the first time) the read end
                 // of the lifeline, a pipe of which only the daemon has the other end, and which gets a byte
                 // when the table has changed
    open_queue,  // OpenQueueRequest (with the process's segment memfd) -> OpenQueueReply, with the receive
                 // socket
    close_queue,  // QueueNumber; the process gives a block back
    create_file,  // one end of a SOCK_SEQPACKET pair -> FileReply
    close_file,   // FileRequest
    lend_file,    // FileRequest -> Empty, with the daemon's end, to write events into (rdmacm/lent_ends.h)
    share_page,   // a page for a host::ProgramPage -> Empty, with ports lent in it
    create_id,    // CreateIdRequest -> IdReply
    destroy_id,   // IdRequest -> EventsReply
    bind,         // BindRequest -> cm::IdInfo
    listen,       // ListenRequest (with a page for a host::Backlog, if possible) -> cm::IdInfo
    resolve_address,     // ResolveAddressRequest -> Empty
    resolve_route,       // ResolveRouteRequest -> Empty
    connect,             // ConnectRequest -> Empty
    accept,              // AcceptRequest -> Empty
    reject,              // RejectRequest -> Empty
    disconnect,          // IdRequest -> Empty
    init_qp_attributes,  // InitQpRequest -> cm::QpTransition
    set_option,          // OptionRequest -> Empty
    notify,              // NotifyRequest -> Empty
    migrate,             // MigrateRequest -> EventsReply
    requeue,             // RequeueRequest: an event that the library makes up, for a file of its own -> Empty
    write_event,         // WriteEventRequest -> Empty
    join_multicast,      // MulticastRequest -> Empty
    leave_multicast,     // MulticastRequest -> EventsReply
    request_taken,       // IdRequest -> Empty: a CONNECT_REQUEST of that listener was read
    communication_established,  // QpRequest -> Empty: first packet on a QP that is still in RTR
    // For tools. They see what belongs to their own user, root sees all.
    status,        // Empty -> StatusReply
    next_process,  // AfterRequest -> ProcessReply, with the process's tables, to be read (adapter/segment.h)
    next_ids,      // AfterRequest -> IdsReply
    port_totals,   // PortRequest -> PortReply
    // A program's plan of faults: asks for it, and with a descriptor gives it one if it has none ->
    // FaultsReply, with the plan's file (faults/board.h).
    faults,
    // CaptureRequest: the captures of all programs of the asking user. With a descriptor begins one, which
    // ends with the connection; without asks for one -> CaptureReply, with the file to append to.
    capture,
};

// The first six bytes (magic, version) of both headers are the same in every version, so that a mismatch can
// be told. A datagram has one request, or several one behind the other: who waits for an answer, and a
// descriptor, are the last one's.
inline constexpr std::size_t kMostAlong = 512;  // bytes in front of the last
struct RequestHeader {
    std::uint32_t magic = kProtocolMagic;
    std::uint16_t version = kProtocolVersion;
    Command command{};
    std::uint32_t sequence = 0;  // 0: nobody waits for an answer, so none is sent
    std::uint32_t length = 0;    // of the request behind the header
};

struct ReplyHeader {
    std::uint32_t magic = kProtocolMagic;
    std::uint16_t version = kProtocolVersion;
    std::uint16_t reserved = 0;
    std::uint32_t sequence = 0;  // 0: whatever is asked; the daemon cannot serve this program
    // 0 or a positive errno; then `reason` says why. ESHUTDOWN: the daemon is leaving, start another one.
    std::int32_t error = 0;
    std::uint32_t length = 0;
    std::array<char, 252> reason{};
};

struct Empty {
    std::uint8_t nothing = 0;
};

struct HelloRequest {
    std::uint32_t pid = 0;  // as the program sees itself; the daemon trusts SCM_CREDENTIALS only
    std::array<char, 64> build{};
    std::array<char, 256>
        capture{};  // VERBENA_CAPTURE as an absolute path: the daemon's packets go to a file, too
    std::array<char, 256> faults{};  // VERBENA_FAULT, likewise: rules about CM messages are the daemon's
};
// Who a daemon's programs can reach.
struct FabricInfo {
    std::array<char, 32> name{};
    // 0: a fabric of its own, or UDP 4791 belongs to somebody else; its programs reach each other only.
    std::uint8_t wire_available = 0;
    std::uint8_t chosen = 0;  // by VERBENA_FABRIC: the program knows
    std::uint8_t reserved[2] = {};
    std::array<char, 188> note{};  // why there is no wire, in words

    // At this network namespace, whatever routes there are. Not of one that is not known.
    bool ends_here() const { return name[0] && !wire_available; }
};
struct HelloReply {
    std::uint32_t daemon_pid = 0;
    std::array<char, 64> build{};
    FabricInfo fabric;
};

struct OpenQueueRequest {
    std::uint32_t pid = 0;
};
struct OpenQueueReply {
    std::uint32_t queue = 0;            // number in the group
    std::uint32_t first_qp_number = 0;  // queue << 12
    std::uint32_t qp_numbers = 0;       // 4096
    std::uint16_t udp_port = 0;         // 4791, or the fabric's own
    std::uint16_t reserved = 0;
    std::array<char, 40>
        stray_fabric{};  // link::UdpLink::Setup::fabric: random, known to the daemon's clients
};
struct QueueNumber {
    std::uint32_t queue = 0;
};

struct FileReply {
    cm::FileNumber file = 0;
};
struct FileRequest {
    cm::FileNumber file = 0;
};

// A process that makes many ids need not wait for each: it has numbers reserved beside the one that it asks
// for, and then says which it takes, in ascending order; what is left when it asks again is forfeited. Such a
// creation that is refused shows when the id is used.
inline constexpr std::uint32_t kMostReserved = 64;
struct CreateIdRequest {
    cm::IdNumber id = 0;        // of the reserve; 0: asks for one
    std::uint32_t reserve = 0;  // if it asks: how many numbers behind that one it wants, too
    cm::FileNumber file = 0;
    cm::PortSpace port_space{};
    cm::QpType qp_type{};
    std::uint8_t reserved = 0;
    std::uint64_t user_handle = 0;
};
struct IdReply {
    cm::IdNumber id = 0;
};
struct IdRequest {
    cm::IdNumber id = 0;
};
struct EventsReply {
    std::uint64_t events_delivered = 0;
};
struct BindRequest {
    cm::IdNumber id = 0;
    cm::Endpoint local;
};
struct ListenRequest {
    cm::IdNumber id = 0;
    std::int32_t backlog = 0;
};
struct ResolveAddressRequest {
    cm::IdNumber id = 0;
    std::int32_t timeout_ms = 0;
    // Not 0: one that the program took (host/program_page.h) for this id, and it has its event already.
    std::uint16_t lent_port = 0;
    std::uint8_t has_source = 0;
    std::uint8_t reserved[5] = {};
    cm::Endpoint source;
    cm::Endpoint remote;
};
struct ResolveRouteRequest {
    cm::IdNumber id = 0;
    std::int32_t timeout_ms = 0;
    std::uint8_t told = 0;  // the program has its event already
    std::uint8_t reserved[3] = {};
};
struct ConnectRequest {
    cm::IdNumber id = 0;
    cm::ConnectParameters parameters;
};
struct AcceptRequest {
    cm::IdNumber id = 0;
    std::uint8_t has_parameters = 0;
    std::uint8_t reserved[3] = {};
    std::uint64_t user_handle = 0;
    cm::ConnectParameters parameters;
};
struct RejectRequest {
    cm::IdNumber id = 0;
    std::uint8_t reason = 0;
    std::uint8_t private_data_length = 0;
    std::array<std::uint8_t, cm::kMaxPrivateData> private_data{};
};
struct InitQpRequest {
    cm::IdNumber id = 0;
    std::uint8_t qp_state = 0;
    std::uint8_t reserved[3] = {};
};
struct OptionRequest {
    cm::IdNumber id = 0;
    std::int32_t level = 0;
    std::int32_t option = 0;
    std::uint32_t length = 0;
    std::array<std::uint8_t, 256> value{};
};
struct NotifyRequest {
    cm::IdNumber id = 0;
    std::int32_t event = 0;
};
struct MigrateRequest {
    cm::IdNumber id = 0;
    cm::FileNumber file = 0;
};
inline constexpr std::uint32_t kMostRequeued = 4096;
struct RequeueRequest {
    cm::FileNumber file = 0;
    std::uint32_t count = 1;  // how many times
    cm::Event event;
};
struct WriteEventRequest {
    cm::IdNumber id = 0;
    std::int32_t status = 0;
    cm::EventType type{};
    std::uint8_t reserved[7] = {};
    std::uint64_t argument = 0;
};
struct MulticastRequest {
    cm::IdNumber id = 0;
    std::uint16_t join_flags = 0;
    std::uint16_t reserved = 0;
    std::uint64_t handle = 0;
    cm::Endpoint group;
};
struct QpRequest {
    std::uint32_t qp_number = 0;
};
struct StatusReply {
    std::uint32_t daemon_pid = 0, clients = 0, queues = 0, files = 0;
    std::uint32_t ids = 0, listeners = 0, connections = 0, timewait = 0;
    std::uint32_t uptime_seconds = 0;
    std::uint32_t udp_port = 0;
    FabricInfo fabric;
};

// Lists are asked for piece by piece: what comes behind this one, 0 at first.
struct AfterRequest {
    std::uint32_t after = 0;
};
struct ProcessReply {
    std::uint32_t session = 0;  // what to ask with next; 0: there is no further one
    std::uint32_t pid = 0;      // as the daemon sees it; 0: in another namespace of processes
    std::uint32_t user = 0;
    std::uint32_t has_tables = 0;  // 1: it has opened a device
    std::uint64_t ended = 0;       // PortReply
};
struct IdsReply {
    std::uint32_t count = 0;  // none: there is no further one
    std::uint32_t reserved = 0;
    struct Entry {
        cm::IdSummary id;
        std::uint32_t pid = 0;  // of its program
    };
    std::array<Entry, 8> entries{};
};
struct FaultsRequest {
    std::uint32_t session = 0;  // ProcessReply::session; 0: whoever asks
    std::uint32_t changed = 0;  // 1: there are new rules in it, which programs shall look at
};
struct FaultsReply {
    std::uint32_t has_plan = 0;
};
inline constexpr std::uint32_t kMaxCaptures = 16;  // at a time
struct CaptureRequest {
    std::uint32_t index = 0;  // which one is asked for
};
struct CaptureReply {
    std::uint32_t count = 0;    // of captures
    std::uint32_t waiting = 0;  // programs with devices that have not asked since it began
};
struct PortRequest {
    std::uint32_t device = 0;  // Device::index
};
struct PortReply {
    // How many programs have ended. Who adds up the totals and the tables of the living looks before and
    // after, for at that moment a program's counts move from one to the other.
    std::uint64_t ended = 0;
    adapter::PortTotals totals{};  // of programs that have ended, and of the connection manager's own packets
};

}  // namespace verbena::host
