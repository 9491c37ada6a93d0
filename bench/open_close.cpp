// One thread opens a connection, closes it and opens the next; another process accepts them. From
// rdma_create_id to rdma_destroy_id, with an event channel, as rdma_cm's man page has it.
//
//     open_close [ADDRESS] [COUNT]        prints us for each connection
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

#include <chrono>

#include "two_processes.h"

using namespace verbena::scale;

namespace {

constexpr int kPatience = 2000;  // ms, for each step
constexpr unsigned kWarmUp = 10;

class Side {
   public:
    Side() : channel_(rdma_create_event_channel()) {
        if (!channel_) fail("rdma_create_event_channel");
    }
    rdma_cm_id* create_id() const {
        rdma_cm_id* id = nullptr;
        if (rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP)) fail("rdma_create_id");
        return id;
    }
    // The next event's kind, and its id.
    std::pair<rdma_cm_event_type, rdma_cm_id*> next() const {
        rdma_cm_event* event = nullptr;
        if (rdma_get_cm_event(channel_, &event)) fail("rdma_get_cm_event");
        const std::pair kind_and_id{event->event, event->id};
        rdma_ack_cm_event(event);
        return kind_and_id;
    }
    void wait_for(rdma_cm_event_type wanted) const {
        if (const auto kind = next().first; kind != wanted) {
            std::fprintf(stderr, "%s in place of %s\n", rdma_event_str(kind), rdma_event_str(wanted));
            std::exit(1);
        }
    }

   private:
    rdma_event_channel* channel_;
};

void create_qp(rdma_cm_id* id) {
    ibv_qp_init_attr attr{};
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {1, 1, 1, 1, 0};
    if (rdma_create_qp(id, nullptr, &attr)) fail("rdma_create_qp");
}
void destroy(rdma_cm_id* id) {
    rdma_destroy_qp(id);
    if (rdma_destroy_id(id)) fail("rdma_destroy_id");
}

void serve(int socket, sockaddr_in address, unsigned count) {
    const Side side;
    rdma_cm_id* listener = side.create_id();
    if (rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&address))) fail("rdma_bind_addr");
    if (rdma_listen(listener, 1)) fail("rdma_listen");
    tell(socket, rdma_get_src_port(listener));
    for (unsigned closed = 0; closed < count;) {
        const auto [kind, id] = side.next();
        rdma_conn_param answer{};
        switch (kind) {
            case RDMA_CM_EVENT_CONNECT_REQUEST:
                create_qp(id);
                if (rdma_accept(id, &answer)) fail("rdma_accept");
                break;
            case RDMA_CM_EVENT_DISCONNECTED:
                rdma_disconnect(id);
                destroy(id);
                closed++;
                break;
            default:
                break;
        }
    }
}

void open_and_close(const Side& side, sockaddr_in address) {
    rdma_cm_id* id = side.create_id();
    if (rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&address), kPatience))
        fail("rdma_resolve_addr");
    side.wait_for(RDMA_CM_EVENT_ADDR_RESOLVED);
    if (rdma_resolve_route(id, kPatience)) fail("rdma_resolve_route");
    side.wait_for(RDMA_CM_EVENT_ROUTE_RESOLVED);
    create_qp(id);
    rdma_conn_param wish{};
    wish.retry_count = 7;
    if (rdma_connect(id, &wish)) fail("rdma_connect");
    side.wait_for(RDMA_CM_EVENT_ESTABLISHED);
    if (rdma_disconnect(id)) fail("rdma_disconnect");
    side.wait_for(RDMA_CM_EVENT_DISCONNECTED);
    destroy(id);
}

double microseconds_each(int socket, sockaddr_in address, unsigned count) {
    const Side side;
    address.sin_port = hear<__be16>(socket);
    for (unsigned n = 0; n < kWarmUp; n++) open_and_close(side, address);
    const auto begin = std::chrono::steady_clock::now();
    for (unsigned n = 0; n < count; n++) open_and_close(side, address);
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() /
           count;
}

}  // namespace

int main(int argc, char** argv) {
    const unsigned count = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1000;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    if (inet_pton(AF_INET, argc > 1 ? argv[1] : "127.0.0.1", &address.sin_addr) != 1 || count == 0) {
        std::fprintf(stderr, "open_close [ADDRESS] [COUNT]\n");
        return 2;
    }
    return run_pair([&](int socket) { serve(socket, address, count + kWarmUp); },
                    [&](int socket) { std::printf("%.1f us\n", microseconds_each(socket, address, count)); });
}
