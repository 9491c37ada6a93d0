#include "fabric.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace verbena::rdmacm_test {

Address::Address(const char* host, std::uint16_t port) {
    sockaddr_in in{};
    sockaddr_in6 in6{};
    if (inet_pton(AF_INET, host, &in.sin_addr) == 1) {
        in.sin_family = AF_INET;
        in.sin_port = htons(port);
        std::memcpy(&storage, &in, sizeof in);
    } else if (inet_pton(AF_INET6, host, &in6.sin6_addr) == 1) {
        in6.sin6_family = AF_INET6;
        in6.sin6_port = htons(port);
        std::memcpy(&storage, &in6, sizeof in6);
    } else {
        ADD_FAILURE() << host << " is no address";
    }
}

std::uint16_t source_port(rdma_cm_id* id) { return ntohs(rdma_get_src_port(id)); }

bool wait_readable(int fd, int timeout_ms) {
    pollfd waiting{fd, POLLIN, 0};
    return poll(&waiting, 1, timeout_ms) == 1;
}

int outcome(int result) { return result == 0 ? 0 : result == -1 ? errno : -1; }

std::uint32_t unused_qp_number() {
    static std::uint32_t last = 0x300000;
    return ++last;
}

rdma_conn_param parameters_for(std::uint32_t qp_number) {
    rdma_conn_param parameters{};
    parameters.qp_num = qp_number;
    parameters.retry_count = 7;
    parameters.rnr_retry_count = 7;
    return parameters;
}

std::string outside_address() {
    ifaddrs* list = nullptr;
    std::string found;
    if (getifaddrs(&list) != 0) return found;
    for (ifaddrs* entry = list; entry && found.empty(); entry = entry->ifa_next) {
        if (!entry->ifa_addr || entry->ifa_addr->sa_family != AF_INET || entry->ifa_flags & IFF_LOOPBACK ||
            !(entry->ifa_flags & IFF_RUNNING))
            continue;
        sockaddr_in in;
        std::memcpy(&in, entry->ifa_addr, sizeof in);
        char text[INET_ADDRSTRLEN];
        if (inet_ntop(AF_INET, &in.sin_addr, text, sizeof text)) found = text;
    }
    freeifaddrs(list);
    return found;
}

Side::Side() : channel(rdma_create_event_channel()) {
    if (!channel) ADD_FAILURE() << "no event channel: " << std::strerror(errno);
}

Side::~Side() {
    while (!ids_.empty()) destroy(ids_.back());
    if (channel) rdma_destroy_event_channel(channel);
}

int Side::destroy(rdma_cm_id* id) {
    std::erase(ids_, id);
    if (id->qp) rdma_destroy_qp(id);
    return rdma_destroy_id(id);
}

rdma_cm_id* Side::id(rdma_port_space space, void* context) {
    rdma_cm_id* made = nullptr;
    if (rdma_create_id(channel, &made, context, space) != 0) {
        ADD_FAILURE() << "rdma_create_id: " << std::strerror(errno);
        return nullptr;
    }
    ids_.push_back(made);
    return made;
}

Event Side::next(int timeout_ms) {
    Event copy;
    if (!wait_readable(channel->fd, timeout_ms)) {
        ADD_FAILURE() << "no event within " << timeout_ms << " ms";
        return copy;
    }
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(channel, &event) != 0) {
        ADD_FAILURE() << "rdma_get_cm_event: " << std::strerror(errno);
        return copy;
    }
    copy.type = event->event;
    copy.status = event->status;
    copy.id = event->id;
    copy.listen_id = event->listen_id;
    bool datagram = event->id->qp_type == IBV_QPT_UD;
    const void* data = datagram ? event->param.ud.private_data : event->param.conn.private_data;
    std::size_t length = datagram ? event->param.ud.private_data_len : event->param.conn.private_data_len;
    if (datagram)
        copy.ud = event->param.ud;
    else
        copy.conn = event->param.conn;
    if (length) {
        const auto* bytes = static_cast<const std::uint8_t*>(data);
        copy.data.assign(bytes, bytes + length);
    }
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) adopt(event->id);
    EXPECT_EQ(rdma_ack_cm_event(event), 0);
    return copy;
}

Event Side::expect(rdma_cm_event_type type, int status) {
    Event event = next();
    EXPECT_STREQ(rdma_event_str(event.type), rdma_event_str(type));
    EXPECT_EQ(event.status, status);
    return event;
}

rdma_cm_id* Side::listener(const char* host, std::uint16_t& port, rdma_port_space space) {
    rdma_cm_id* made = id(space);
    EXPECT_EQ(outcome(rdma_bind_addr(made, Address(host, port).get())), 0);
    EXPECT_EQ(outcome(rdma_listen(made, 0)), 0);
    port = source_port(made);
    return made;
}

rdma_cm_id* Side::resolved(const char* host, std::uint16_t port, rdma_port_space space) {
    rdma_cm_id* made = id(space);
    EXPECT_EQ(outcome(rdma_resolve_addr(made, nullptr, Address(host, port).get(), kResolveMs)), 0);
    expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    EXPECT_EQ(outcome(rdma_resolve_route(made, kResolveMs)), 0);
    expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    return made;
}

void create_qp(rdma_cm_id* id) {
    ibv_qp_init_attr attributes{};
    attributes.cap = {4, 4, 1, 1, 0};
    attributes.qp_type = id->qp_type;
    EXPECT_EQ(outcome(rdma_create_qp(id, nullptr, &attributes)), 0);
}

ibv_qp_init_attr small_qp() {
    ibv_qp_init_attr attributes{};
    attributes.cap = {4, 4, 1, 1, 0};
    attributes.sq_sig_all = 1;
    return attributes;
}

Pair::Pair(const char* host) {
    std::uint16_t port = 0;
    listener = server.listener(host, port);
    active = client.resolved(host, port);
    create_qp(active);
    rdma_conn_param parameters{};
    parameters.retry_count = 7;
    parameters.rnr_retry_count = 7;
    EXPECT_EQ(outcome(rdma_connect(active, &parameters)), 0);
    passive = server.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id;
    if (!passive) return;
    create_qp(passive);
    EXPECT_EQ(outcome(rdma_accept(passive, &parameters)), 0);
    client.expect(RDMA_CM_EVENT_ESTABLISHED);
    server.expect(RDMA_CM_EVENT_ESTABLISHED);
}

}  // namespace verbena::rdmacm_test
