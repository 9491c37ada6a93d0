#include "cm/text.h"

namespace verbena::cm {

std::string to_string(const Endpoint& endpoint) {
    std::string address = verbena::to_string(endpoint.address);
    std::string port = std::to_string(endpoint.port);
    return address.find(':') == std::string::npos ? address + ":" + port : "[" + address + "]:" + port;
}

const char* to_string(IdState state) {
    switch (state) {
        case IdState::idle:
            return "idle";
        case IdState::address_bound:
            return "address bound";
        case IdState::address_query:
            return "resolving its address";
        case IdState::address_resolved:
            return "address resolved";
        case IdState::route_query:
            return "resolving its route";
        case IdState::route_resolved:
            return "route resolved";
        case IdState::connect:
            return "connecting";
        case IdState::established:
            return "established";
        case IdState::disconnect:
            return "disconnected";
        case IdState::listen:
            return "listening";
        case IdState::device_removed:
            return "without its device";
        case IdState::destroying:
            return "destroyed";
    }
    return "unknown";
}

const char* to_string(ConnectionState state) {
    switch (state) {
        case ConnectionState::idle:
            return "idle";
        case ConnectionState::req_sent:
            return "REQ sent";
        case ConnectionState::mra_req_received:
            return "REQ sent, MRA received";
        case ConnectionState::req_received:
            return "REQ received";
        case ConnectionState::rep_sent:
            return "REP sent";
        case ConnectionState::mra_rep_received:
            return "REP sent, MRA received";
        case ConnectionState::rep_received:
            return "REP received";
        case ConnectionState::established:
            return "established";
        case ConnectionState::dreq_sent:
            return "DREQ sent";
        case ConnectionState::dreq_received:
            return "DREQ received";
        case ConnectionState::timewait:
            return "timewait";
        case ConnectionState::closed:
            return "closed";
    }
    return "unknown";
}

const char* to_string(PortSpace space) {
    switch (space) {
        case PortSpace::ipoib:
            return "RDMA_PS_IPOIB";
        case PortSpace::tcp:
            return "RDMA_PS_TCP";
        case PortSpace::udp:
            return "RDMA_PS_UDP";
        case PortSpace::ib:
            return "RDMA_PS_IB";
    }
    return "unknown";
}

}  // namespace verbena::cm
