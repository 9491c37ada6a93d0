// Two processes that answer each other, and sleep in between by epoll: for the events of a completion
// channel, or, for comparison, for the bytes of a TCP connection over loopback.
//
//     by_epoll verbs|tcp [ROUND TRIPS]        prints the time of one round trip
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>

#include <array>
#include <chrono>
#include <string>

#include "two_processes.h"

using namespace verbena::scale;

namespace {

constexpr unsigned kBytes = 64;

enum class Role : std::uint8_t { asks, answers };

// What becomes readable when the other side has spoken.
class Sleeper {
   public:
    explicit Sleeper(int fd) {
        if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK)) fail("fcntl");
        epoll_event event{};
        event.events = EPOLLIN;
        if (epoll_ < 0 || epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event)) fail("epoll");
    }
    ~Sleeper() { close(epoll_); }
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;

    void sleep() const {
        epoll_event event;
        if (epoll_wait(epoll_, &event, 1, -1) != 1) fail("epoll_wait");
    }

   private:
    const int epoll_ = epoll_create1(EPOLL_CLOEXEC);
};

class Verbs {
   public:
    Verbs(int socket, Role) {
        region_ = device_.register_memory(memory_.data(), memory_.size());
        element_ = {reinterpret_cast<std::uintptr_t>(memory_.data()), kBytes, region_->lkey};
        join(socket, device_, qp_, region_);
        for (unsigned i = 0; i < kReceives; i++) post_receive(qp_, element_);
        arm();
        meet(socket);
    }

    void say() { post_send(qp_, element_); }
    // As a server does: asleep until there is an event, then everything that has completed.
    void hear() {
        while (heard_ == 0) {
            sleeper_.sleep();
            ibv_cq* cq;
            void* context;
            if (ibv_get_cq_event(device_.channel, &cq, &context)) continue;
            ibv_ack_cq_events(cq, 1);
            arm();
            take_all();
        }
        heard_--;
    }

   private:
    static constexpr unsigned kReceives = 64;

    void arm() {
        if (ibv_req_notify_cq(device_.cq, 0)) fail("ibv_req_notify_cq");
    }
    void take_all() {
        for (ibv_wc completion; take_completions(device_.cq, &completion, 1) > 0;)
            if (completion.opcode & IBV_WC_RECV) {
                heard_++;
                post_receive(qp_, element_);
            }
    }

    std::array<std::uint8_t, kBytes> memory_{};
    Device device_{4 * kReceives, true};
    ibv_qp* const qp_ = device_.create_qp(kReceives);
    ibv_mr* region_ = nullptr;
    ibv_sge element_{};
    const Sleeper sleeper_{device_.channel->fd};
    unsigned heard_ = 0;
};

// Who answers listens, and tells the port.
class Tcp {
   public:
    Tcp(int socket, Role role)
        : connection_(role == Role::answers ? accept_one(socket) : connect_to(socket)) {
        const int on = 1;
        if (setsockopt(connection_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on)) fail("TCP_NODELAY");
    }

    void say() {
        if (write(connection_, bytes_.data(), bytes_.size()) != ssize_t{kBytes}) fail("write");
    }
    void hear() {
        sleeper_.sleep();
        if (read(connection_, bytes_.data(), bytes_.size()) != ssize_t{kBytes}) fail("read");
    }

   private:
    static sockaddr_in loopback(in_port_t port) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = port;
        return address;
    }
    static int accept_one(int socket) {
        const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in address = loopback(0);
        socklen_t size = sizeof address;
        if (bind(listener, reinterpret_cast<sockaddr*>(&address), size) || listen(listener, 1) ||
            getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size))
            fail("listen");
        tell(socket, address.sin_port);
        const int connection = accept(listener, nullptr, nullptr);
        if (connection < 0) fail("accept");
        close(listener);
        return connection;
    }
    static int connect_to(int socket) {
        const int connection = ::socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in address = loopback(verbena::scale::hear<in_port_t>(socket));
        if (::connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address)) fail("connect");
        return connection;
    }

    std::array<std::uint8_t, kBytes> bytes_{};
    const int connection_;
    const Sleeper sleeper_{connection_};
};

template <class Way>
void answer(int socket, unsigned times) {
    Way way(socket, Role::answers);
    for (unsigned i = 0; i < times; i++) {
        way.hear();
        way.say();
    }
    meet(socket);
}
template <class Way>
void ask(int socket, unsigned times) {
    using Clock = std::chrono::steady_clock;
    Way way(socket, Role::asks);
    const auto begin = Clock::now();
    for (unsigned i = 0; i < times; i++) {
        way.say();
        way.hear();
    }
    const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
    meet(socket);
    std::printf("%.2f us\n", took.count() / times);
}
template <class Way>
int measure(unsigned times) {
    return run_pair([&](int socket) { answer<Way>(socket, times); },
                    [&](int socket) { ask<Way>(socket, times); });
}

}  // namespace

int main(int count, char** words) {
    const std::string way = count > 1 ? words[1] : "";
    const unsigned times = count > 2 ? static_cast<unsigned>(std::stoul(words[2])) : 20000;
    if (way != "verbs" && way != "tcp") {
        std::fprintf(stderr, "by_epoll verbs|tcp [ROUND TRIPS]\n");
        return 2;
    }
    return way == "verbs" ? measure<Verbs>(times) : measure<Tcp>(times);
}
