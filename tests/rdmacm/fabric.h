// What the tests of the rdma_* calls share: ids and channels that clean up behind themselves, and waiting for
// an event without hanging. Both sides of a connection live in one process and one thread, each with its own
// channel.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <string>
#include <vector>

// Releases after v44, whose headers this is compiled with.
extern "C" int rdma_write_cm_event(rdma_cm_id*, rdma_cm_event_type, int, uint64_t);
extern "C" int rdma_resolve_addrinfo(rdma_cm_id*, const char*, const char*, const rdma_addrinfo*);
extern "C" int rdma_query_addrinfo(rdma_cm_id*, rdma_addrinfo**);

namespace verbena::rdmacm_test {

inline constexpr int kPatienceMs = 20'000;  // for what must come
inline constexpr int kResolveMs = 2'000;

// An IPv4 or IPv6 socket address, by text.
struct Address {
    Address(const char* host, std::uint16_t port);
    sockaddr* get() { return static_cast<sockaddr*>(static_cast<void*>(&storage)); }
    sockaddr_storage storage{};
};

std::uint16_t source_port(rdma_cm_id* id);
bool wait_readable(int fd, int timeout_ms);

// A copy of an event that was acknowledged at once.
struct Event {
    rdma_cm_event_type type = RDMA_CM_EVENT_TIMEWAIT_EXIT;
    int status = -1;
    rdma_cm_id* id = nullptr;
    rdma_cm_id* listen_id = nullptr;
    rdma_conn_param conn{};  // private_data is not valid any more: see `data`
    rdma_ud_param ud{};
    std::vector<std::uint8_t> data;
};

class Side {
   public:
    Side();
    ~Side();
    Side(const Side&) = delete;
    Side& operator=(const Side&) = delete;

    rdma_cm_id* id(rdma_port_space space = RDMA_PS_TCP, void* context = nullptr);
    // The next event, which must come and be of that type.
    Event expect(rdma_cm_event_type type, int status = 0);
    Event next(int timeout_ms = kPatienceMs);
    bool quiet(int ms = 0) const { return !wait_readable(channel->fd, ms); }
    void adopt(rdma_cm_id* id) { ids_.push_back(id); }
    // Destroys an id (with its queue pair) before the Side does.
    int destroy(rdma_cm_id* id);

    // id: bound to host:port (0: any) and listening; its port.
    rdma_cm_id* listener(const char* host, std::uint16_t& port, rdma_port_space space = RDMA_PS_TCP);
    // An id whose way to host:port is resolved.
    rdma_cm_id* resolved(const char* host, std::uint16_t port, rdma_port_space space = RDMA_PS_TCP);

    rdma_event_channel* channel;

   private:
    std::vector<rdma_cm_id*> ids_;
};

// A queue pair with the completion queues of the id's own.
void create_qp(rdma_cm_id* id);
ibv_qp_init_attr small_qp();  // of four requests each way, all of which complete

// A queue pair number for requests without a queue pair, another one each time: the same number from the same
// host may be a connection that is still alive: stale.
std::uint32_t unused_qp_number();
rdma_conn_param parameters_for(std::uint32_t qp_number);

// An address of this host that is not a loopback one, by text; empty if there is none.
std::string outside_address();

// errno of a call that returned exactly -1; 0 if it returned 0; -1 if it returned anything else.
int outcome(int result);

// A connection established between two ids with queue pairs.
struct Pair {
    explicit Pair(const char* host = "127.0.0.1");
    Side server, client;
    rdma_cm_id *listener, *active, *passive = nullptr;
};

}  // namespace verbena::rdmacm_test
