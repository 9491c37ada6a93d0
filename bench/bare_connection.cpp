// What the machine itself takes for the conversation of one connection after the other: the datagrams that
// two programs and a daemon between them exchange from rdma_create_id to rdma_destroy_id, of the sizes that
// they have, over sockets as theirs; nobody does anything else with them.
//
//     bare_connection [COUNT]                       prints us for each connection
#include <sys/epoll.h>

#include <array>
#include <chrono>
#include <initializer_list>

#include "two_processes.h"

using namespace verbena::scale;

namespace {

constexpr std::size_t kRequest = 200, kEvent = 888;  // bytes
constexpr unsigned kWarmUp = 10;

enum class Said : char {
    connect,
    accept,
    confirm,
    disconnect,
    disconnect_too,
    leave,
};

// One program's two sockets: for what it asks and tells, and for events, whose other end it was lent.
struct Ends {
    int requests = -1, events = -1, lent = -1;
};
struct Channel {
    Ends program, daemon;
};

std::array<int, 2> socket_pair() {
    std::array<int, 2> ends;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data())) fail("socketpair");
    return ends;
}
Channel make_channel() {
    const auto requests = socket_pair(), events = socket_pair();
    return {{requests[0], events[0], events[1]}, {requests[1], events[1]}};
}

void put(int socket, std::size_t size, Said said = {}) {
    std::array<char, kEvent> bytes{};
    bytes[0] = static_cast<char>(said);
    if (send(socket, bytes.data(), size, 0) != static_cast<ssize_t>(size)) fail("send");
}
Said take(int socket) {
    std::array<char, kEvent> bytes;
    if (recv(socket, bytes.data(), bytes.size(), 0) <= 0) fail("recv");
    return Said{bytes[0]};
}

class Program {
   public:
    explicit Program(Ends ends) : ends_(ends) {}
    void tell(Said what) const { put(ends_.requests, kRequest, what); }
    void wait_for_event() const { take(ends_.events); }
    void write_event() const { put(ends_.lent, kEvent); }

   private:
    Ends ends_;
};

void open_and_close(const Program& program) {
    for (int own = 0; own < 2; own++) {  // the address and the route
        program.write_event();
        program.wait_for_event();
    }
    program.tell(Said::connect);
    program.wait_for_event();  // established
    program.tell(Said::confirm);
    program.tell(Said::disconnect);
    program.wait_for_event();  // disconnected; the rest is said in a page of memory
}

void serve(const Program& program, unsigned count) {
    for (unsigned n = 0; n < count; n++) {
        program.wait_for_event();  // a request
        program.tell(Said::accept);
        program.wait_for_event();  // established
        program.wait_for_event();  // disconnected
        program.tell(Said::disconnect_too);
    }
}

class Daemon {
   public:
    Daemon(Ends active, Ends passive) : active_(active), passive_(passive), epoll_(epoll_create1(0)) {
        for (const int socket : {active_.requests, passive_.requests}) {
            epoll_event event{};
            event.events = EPOLLIN;
            event.data.fd = socket;
            if (epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &event)) fail("epoll_ctl");
        }
    }
    // One datagram a turn.
    bool turn() const {
        std::array<epoll_event, 2> events;
        const int ready = epoll_wait(epoll_, events.data(), events.size(), -1);
        for (int i = 0; i < ready; i++)
            if (!answer(take(events[static_cast<std::size_t>(i)].data.fd))) return false;
        return true;
    }

   private:
    bool answer(Said said) const {
        switch (said) {
            case Said::accept:
            case Said::disconnect_too:
                put(active_.events, kEvent);
                break;
            case Said::connect:
            case Said::confirm:
            case Said::disconnect:
                put(passive_.events, kEvent);
                break;
            case Said::leave:
                return false;
        }
        return true;
    }

    const Ends active_, passive_;
    const int epoll_;
};

double microseconds_each(const Program& program, unsigned count) {
    for (unsigned n = 0; n < kWarmUp; n++) open_and_close(program);
    const auto begin = std::chrono::steady_clock::now();
    for (unsigned n = 0; n < count; n++) open_and_close(program);
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() /
           count;
}

}  // namespace

int main(int argc, char** argv) {
    const int wanted = argc > 1 ? std::atoi(argv[1]) : 1000;
    if (wanted <= 0) {
        std::fprintf(stderr, "bare_connection [COUNT]\n");
        return 2;
    }
    const auto count = static_cast<unsigned>(wanted);
    const Channel active = make_channel(), passive = make_channel();
    // It may run where there is room, as a daemon does.
    const pid_t daemon = start([&] {
        const Daemon between(active.daemon, passive.daemon);
        while (between.turn()) {
        }
    });
    const pid_t server = start_on(1, [&] { serve(Program(passive.program), count + kWarmUp); });
    stay_on(0);
    const Program program(active.program);
    std::printf("%.1f us\n", microseconds_each(program, count));
    std::fflush(stdout);
    const bool served = succeeded(server);
    program.tell(Said::leave);
    return served && succeeded(daemon) ? 0 : 1;
}
