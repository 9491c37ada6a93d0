#include "rdmacm/event_reason.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>

#include "base/reason.h"
#include "rdmacm/address.h"

namespace verbena::rdmacm {
namespace {

// "127.0.0.1:4711", "[::1]:4711", "an unknown address".
std::string text_of(const sockaddr_storage& address) {
    char name[INET6_ADDRSTRLEN] = {};
    if (address.ss_family == AF_INET) {
        sockaddr_in v4;
        std::memcpy(&v4, &address, sizeof v4);
        inet_ntop(AF_INET, &v4.sin_addr, name, sizeof name);
        return name + (":" + std::to_string(ntohs(v4.sin_port)));
    }
    if (address.ss_family == AF_INET6) {
        sockaddr_in6 v6;
        std::memcpy(&v6, &address, sizeof v6);
        inet_ntop(AF_INET6, &v6.sin6_addr, name, sizeof name);
        return "[" + std::string(name) + "]:" + std::to_string(ntohs(v6.sin6_port));
    }
    return "an unknown address";
}

// The reasons of a REJ that programs meet; the others by number only (IBA 12.6.7.2).
const char* meaning_of_rejection(int reason) {
    switch (reason) {
        case 3:
            return "the peer is out of resources";
        case 4:
            return "the peer waited too long for the rest of the handshake";
        case 8:
            return "nothing listens there on that port in this port space";
        case 10:
            return "the peer still knows the old connection of these queue pair numbers";
        case 28:
            return "the peer's program refused (rdma_reject) or ended before it accepted";
        default:
            return "the reason's number is that of IBA 12.6.7.2";
    }
}

// IBA 12.11.2.2: a datagram service that is refused is unreachable, not rejected.
const char* meaning_of_sidr(int status) {
    switch (status) {
        case 1:
            return "nothing listens there on that port in this port space";
        case 2:
            return "the peer's program refused (rdma_reject)";
        case 3:
            return "the peer has no queue pair for it";
        default:
            return "the status's number is that of IBA 12.11.2";
    }
}

// What the daemon's search for a way found, beyond the errno's name.
const char* meaning_of_address_error(int error) {
    switch (error) {
        case ENETUNREACH:
        case EHOSTUNREACH:
            return " (the routing table has no way there)";
        case ETIMEDOUT:
            return " (nobody on its network answers for the address)";
        case ENODEV:
            return " (the interface that the route names has no RDMA device)";
        default:
            return "";
    }
}

}  // namespace

std::string sentence(const EventRecord& event, const std::string& peer) {
    const std::string cause = !event.step_reason.empty() ? event.step_reason
                              : event.status < 0         ? std::strerror(-event.status)
                                                         : "";
    switch (event.event) {
        case RDMA_CM_EVENT_ADDR_ERROR:
            return "the way to " + peer + " was not found: " + cause +
                   (event.step_reason.empty() ? meaning_of_address_error(-event.status) : "");
        case RDMA_CM_EVENT_ROUTE_ERROR:
            return "no path to " + peer + ": " + cause;
        case RDMA_CM_EVENT_UNREACHABLE:
            if (event.status > 0)
                return peer + " answered with SIDR status " + std::to_string(event.status) + ": " +
                       meaning_of_sidr(event.status);
            return peer + " does not answer: no RoCE v2 peer there, or UDP port 4791 is blocked on the way";
        case RDMA_CM_EVENT_REJECTED:
            return peer + " rejected with reason " + std::to_string(event.status) + ": " +
                   meaning_of_rejection(event.status) + event.note.data();
        case RDMA_CM_EVENT_CONNECT_ERROR:
            return "connecting to " + peer + " failed here" + (cause.empty() ? "" : ": " + cause);
        case RDMA_CM_EVENT_MULTICAST_ERROR:
            return "joining the multicast group failed" + (cause.empty() ? "" : ": " + cause);
        default:
            return {};
    }
}

namespace {

using Text = std::array<char, 512>;

// Empty where there is no memory for it.
void write_sentence(const EventRecord& event, Text& out) {
    out[0] = 0;
    try {
        const std::string text = sentence(event, text_of(event.id->route.addr.dst_storage));
        std::snprintf(out.data(), out.size(), "%s", text.c_str());
    } catch (const std::bad_alloc&) {
    }
}

}  // namespace

void explain_failure(const EventRecord& event) {
    if (!log_enabled(LogLevel::warn) || !event.id) return;
    Text text;
    write_sentence(event, text);
    if (text[0]) log(LogLevel::warn, "%s: %s", rdma_event_str(event.event), text.data());
}

}  // namespace verbena::rdmacm

const char* verbena_cm_event_reason(const rdma_cm_event* event) {
    using namespace verbena::rdmacm;
    thread_local Text answer;
    const int saved = errno;
    write_sentence(*static_cast<const EventRecord*>(event), answer);
    errno = saved;
    return answer.data();
}
