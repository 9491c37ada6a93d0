// A connected pair that has nothing to do: a server that waits for its client's next request, and a client
// that sleeps before it makes one. A third process looks at how often the kernel put one of their threads on
// or off a processor.
//
//     idle_pair [SECONDS]        prints the context switches of both processes
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "two_processes.h"

using namespace verbena::scale;

namespace {

constexpr unsigned kSettles = 1;  // seconds: the last acknowledgement and its timers

rdma_cm_id* endpoint(const std::string& port, int flags) {
    rdma_addrinfo hints{}, *found = nullptr;
    hints.ai_flags = flags;
    hints.ai_port_space = RDMA_PS_TCP;
    if (rdma_getaddrinfo("127.0.0.1", port.c_str(), &hints, &found)) fail("rdma_getaddrinfo");
    ibv_qp_init_attr attr{};
    attr.cap = {4, 4, 1, 1, 0};
    rdma_cm_id* id = nullptr;
    if (rdma_create_ep(&id, found, nullptr, &attr)) fail("rdma_create_ep");
    rdma_freeaddrinfo(found);
    return id;
}

struct Message {
    char bytes[64] = {};
    ibv_mr* region = nullptr;
};

void expect(rdma_cm_id* id, Message& message) {
    if (rdma_post_recv(id, nullptr, message.bytes, sizeof message.bytes, message.region))
        fail("rdma_post_recv");
}
void say(rdma_cm_id* id, Message& message) {
    if (rdma_post_send(id, nullptr, message.bytes, sizeof message.bytes, message.region, IBV_SEND_SIGNALED))
        fail("rdma_post_send");
    if (ibv_wc completion; rdma_get_send_comp(id, &completion) != 1) fail("rdma_get_send_comp");
}
// Asleep in an event of the completion channel until it is there.
void wait_for_one(rdma_cm_id* id) {
    if (ibv_wc completion; rdma_get_recv_comp(id, &completion) != 1) fail("rdma_get_recv_comp");
}

void serve(int socket) {
    rdma_cm_id *listener = endpoint("0", RAI_PASSIVE), *id = nullptr;
    if (rdma_listen(listener, 1)) fail("rdma_listen");
    tell(socket, rdma_get_src_port(listener));
    if (rdma_get_request(listener, &id)) fail("rdma_get_request");
    Message message;
    message.region = rdma_reg_msgs(id, message.bytes, sizeof message.bytes);
    if (!message.region) fail("rdma_reg_msgs");
    expect(id, message);
    if (rdma_accept(id, nullptr)) fail("rdma_accept");
    while (true) {
        wait_for_one(id);
        expect(id, message);
        say(id, message);
    }
}

[[noreturn]] void ask_once(int socket) {
    rdma_cm_id* id = endpoint(std::to_string(ntohs(hear<__be16>(socket))), 0);
    Message message;
    message.region = rdma_reg_msgs(id, message.bytes, sizeof message.bytes);
    if (!message.region) fail("rdma_reg_msgs");
    expect(id, message);
    if (rdma_connect(id, nullptr)) fail("rdma_connect");
    say(id, message);
    wait_for_one(id);
    tell(socket, 'i');
    while (true) pause();
}

// Of all its threads.
unsigned long switches(pid_t process) {
    unsigned long sum = 0;
    for (const auto& thread :
         std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task")) {
        std::ifstream status(thread.path() / "status");
        for (std::string word; status >> word;)
            if (unsigned long count;
                word.find("voluntary_ctxt_switches:") != std::string::npos && status >> count)
                sum += count;
    }
    return sum;
}

}  // namespace

int main(int count, char** words) {
    const unsigned seconds = count > 1 ? static_cast<unsigned>(std::atoi(words[1])) : 10;
    int server_end[2], client_end[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, server_end) || socketpair(AF_UNIX, SOCK_STREAM, 0, client_end))
        fail("socketpair");
    // The ends of others are closed, so that who fails is noticed.
    const pid_t server = start_on(0, [&] {
        for (int other : {server_end[0], client_end[0], client_end[1]}) close(other);
        serve(server_end[1]);
    });
    close(server_end[1]);
    const pid_t client = start_on(1, [&] {
        for (int other : {server_end[0], client_end[0]}) close(other);
        ask_once(client_end[1]);
    });
    close(client_end[1]);
    tell(client_end[0], hear<__be16>(server_end[0]));
    hear<char>(client_end[0]);
    sleep(kSettles);
    const unsigned long before = switches(server) + switches(client);
    sleep(seconds);
    for (pid_t process : {server, client})
        if (waitpid(process, nullptr, WNOHANG) != 0) fail("one of the pair has ended");
    std::printf("%lu context switches\n", switches(server) + switches(client) - before);
    for (pid_t process : {server, client}) {
        kill(process, SIGTERM);
        waitpid(process, nullptr, 0);
    }
    return 0;
}
