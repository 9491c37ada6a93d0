#include "daemon/requests.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>

#ifndef AF_IB
#define AF_IB 27
#endif

namespace verbena::daemon {
namespace {

using host::Command;

template <class RequestType, class ReplyType>
consteval CommandInfo command(Command number, const char* name, Descriptors descriptors = Descriptors::none) {
    return {number, name, sizeof(RequestType), sizeof(ReplyType), descriptors};
}

constexpr std::array kCommands = {
    command<host::HelloRequest, host::HelloReply>(Command::hello, "hello"),
    command<host::OpenQueueRequest, host::OpenQueueReply>(Command::open_queue, "open_queue",
                                                          Descriptors::optional),
    command<host::QueueNumber, host::Empty>(Command::close_queue, "close_queue"),
    command<host::Empty, host::FileReply>(Command::create_file, "create_file", Descriptors::one),
    command<host::FileRequest, host::Empty>(Command::close_file, "close_file"),
    command<host::FileRequest, host::Empty>(Command::lend_file, "lend_file"),
    command<host::Empty, host::Empty>(Command::share_page, "share_page", Descriptors::one),
    command<host::CreateIdRequest, host::IdReply>(Command::create_id, "create_id"),
    command<host::IdRequest, host::EventsReply>(Command::destroy_id, "destroy_id"),
    command<host::BindRequest, cm::IdInfo>(Command::bind, "bind"),
    command<host::ListenRequest, cm::IdInfo>(Command::listen, "listen", Descriptors::optional),
    command<host::ResolveAddressRequest, host::Empty>(Command::resolve_address, "resolve_address"),
    command<host::ResolveRouteRequest, host::Empty>(Command::resolve_route, "resolve_route"),
    command<host::ConnectRequest, host::Empty>(Command::connect, "connect"),
    command<host::AcceptRequest, host::Empty>(Command::accept, "accept"),
    command<host::RejectRequest, host::Empty>(Command::reject, "reject"),
    command<host::IdRequest, host::Empty>(Command::disconnect, "disconnect"),
    command<host::InitQpRequest, cm::QpTransition>(Command::init_qp_attributes, "init_qp_attributes"),
    command<host::OptionRequest, host::Empty>(Command::set_option, "set_option"),
    command<host::NotifyRequest, host::Empty>(Command::notify, "notify"),
    command<host::MigrateRequest, host::EventsReply>(Command::migrate, "migrate"),
    command<host::RequeueRequest, host::Empty>(Command::requeue, "requeue"),
    command<host::WriteEventRequest, host::Empty>(Command::write_event, "write_event"),
    command<host::MulticastRequest, host::Empty>(Command::join_multicast, "join_multicast"),
    command<host::MulticastRequest, host::EventsReply>(Command::leave_multicast, "leave_multicast"),
    command<host::AfterRequest, host::ProcessReply>(Command::next_process, "next_process"),
    command<host::AfterRequest, host::IdsReply>(Command::next_ids, "next_ids"),
    command<host::PortRequest, host::PortReply>(Command::port_totals, "port_totals"),
    command<host::FaultsRequest, host::FaultsReply>(Command::faults, "faults", Descriptors::optional),
    command<host::CaptureRequest, host::CaptureReply>(Command::capture, "capture", Descriptors::optional),
    command<host::IdRequest, host::Empty>(Command::request_taken, "request_taken"),
    command<host::QpRequest, host::Empty>(Command::communication_established, "communication_established"),
    command<host::Empty, host::StatusReply>(Command::status, "status"),
};

consteval bool sizes_fit() {
    for (const CommandInfo& info : kCommands)
        if (sizeof(host::RequestHeader) + info.request_size > kMaxRequestSize ||
            info.reply_size > kMaxReplySize)
            return false;
    return true;
}
static_assert(sizes_fit());

bool good(const cm::Endpoint& endpoint) {
    return endpoint.family == AF_UNSPEC || endpoint.family == AF_INET || endpoint.family == AF_INET6 ||
           endpoint.family == AF_IB;
}

bool good(const cm::ConnectParameters& parameters) {
    return parameters.private_data_length <= cm::kMaxPrivateData;
}

// The fields that index or measure something; whether the values make sense is the connection manager's
// question.
bool fields_fit(const Request& request) {
    switch (request.header.command) {
        case Command::create_id:
            return request.as<host::CreateIdRequest>().reserve <= host::kMostReserved;
        case Command::bind:
            return good(request.as<host::BindRequest>().local);
        case Command::resolve_address: {
            auto body = request.as<host::ResolveAddressRequest>();
            return good(body.source) && good(body.remote);
        }
        case Command::connect:
            return good(request.as<host::ConnectRequest>().parameters);
        case Command::accept:
            return good(request.as<host::AcceptRequest>().parameters);
        case Command::reject:
            return request.as<host::RejectRequest>().private_data_length <= cm::kMaxPrivateData;
        case Command::set_option:
            return request.as<host::OptionRequest>().length <= sizeof(host::OptionRequest::value);
        case Command::requeue: {
            auto body = request.as<host::RequeueRequest>();
            return body.count <= host::kMostRequeued && good(body.event.connection);
        }
        case Command::join_multicast:
        case Command::leave_multicast:
            return good(request.as<host::MulticastRequest>().group);
        default:
            return true;
    }
}

}  // namespace

const CommandInfo* find_command(Command command) {
    auto found = std::find_if(kCommands.begin(), kCommands.end(),
                              [&](const CommandInfo& info) { return info.command == command; });
    return found == kCommands.end() ? nullptr : &*found;
}

const char* to_string(Malformed malformed) {
    switch (malformed) {
        case Malformed::none:
            return "well formed";
        case Malformed::too_short:
            return "shorter than a header";
        case Malformed::magic:
            return "of another protocol";
        case Malformed::version:
            return "of another protocol version";
        case Malformed::command:
            return "of no known command";
        case Malformed::length:
            return "not of the command's length";
        case Malformed::descriptors:
            return "with the wrong number of descriptors";
        case Malformed::field:
            return "with a field out of range";
    }
    return "?";
}

Malformed take_request(std::span<const std::uint8_t>& datagram, unsigned descriptors, Request& out) {
    constexpr std::size_t kCommonSize = offsetof(host::RequestHeader, command);
    out = {};
    if (datagram.size() < kCommonSize) return Malformed::too_short;
    void* const header = &out.header;
    std::memcpy(header, datagram.data(), kCommonSize);
    if (out.header.magic != host::kProtocolMagic) return Malformed::magic;
    if (out.header.version != host::kProtocolVersion) return Malformed::version;
    if (datagram.size() < sizeof out.header) return Malformed::too_short;
    std::memcpy(header, datagram.data(), sizeof out.header);
    out.info = find_command(out.header.command);
    if (!out.info) return Malformed::command;
    const std::size_t size = sizeof out.header + out.info->request_size;
    if (out.header.length != out.info->request_size || datagram.size() < size) return Malformed::length;
    out.body = datagram.subspan(sizeof out.header, out.info->request_size);
    datagram = datagram.subspan(size);
    if (!datagram.empty()) descriptors = 0;  // the last one's
    const bool fitting = out.info->descriptors == Descriptors::one        ? descriptors == 1
                         : out.info->descriptors == Descriptors::optional ? descriptors <= 1
                                                                          : descriptors == 0;
    if (!fitting) return Malformed::descriptors;
    return fields_fit(out) ? Malformed::none : Malformed::field;
}

}  // namespace verbena::daemon
