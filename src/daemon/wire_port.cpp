#include "daemon/wire_port.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/own_user.h"
#include "base/reason.h"
#include "daemon/clock.h"
#include "daemon/proc.h"
#include "host/address_name.h"
#include "host/unix_socket.h"
#include "link/steering.h"

namespace verbena::daemon {
namespace {

constexpr Duration kPatienceWithOthers =
    300 * kMillisecond;  // their programs are unlikely to be in our way for a moment
constexpr Duration kPatienceWithKernel = 500 * kMillisecond;
constexpr Duration kPause = 10 * kMillisecond;
constexpr int kAnswerTimeoutMs = 300;
constexpr std::size_t kMaxAnswer = 100;

// Binds it without sharing, so a group of our own user is seen, too. 0, or EADDRINUSE and the like.
int probe(std::uint16_t port) {
    const Descriptor fd(link::open_lone_socket(port));
    return fd ? 0 : errno;
}

enum class Holder { none, leaving, busy };

// Asks the verbenad that says it has the port.
Holder ask_holder(std::uint16_t port, std::string& note) {
    Descriptor fd(std::max(-1, host::connect_to(host::port_address(port))));
    if (!fd) return Holder::none;
    PeerProcess peer;
    std::array<char, kMaxAnswer> text{};
    host::Received received;
    const iovec part{text.data(), text.size() - 1};
    if (peer_of(fd.get(), peer) != 0 || host::wait_readable(fd.get(), kAnswerTimeoutMs) != 0 ||
        host::receive_datagram(fd.get(), std::span(&part, 1), received, MSG_DONTWAIT) != 0) {
        received.close_all();
        return Holder::none;
    }
    received.close_all();
    if (std::strcmp(text.data(), "leaving") == 0 || received.size == 0) return Holder::leaving;
    // Another user wrote this: only what can be shown is shown.
    for (char& c : text)
        if (c && (c < ' ' || c > '~')) c = '?';
    note = "UDP port " + std::to_string(port) + " is taken by user " + std::to_string(peer.user) +
           "'s verbenad (" + text.data() + ")";
    return Holder::busy;
}

std::string describe(std::uint16_t port, const PortHolder& holder) {
    std::string text = "UDP port " + std::to_string(port) + " is taken by ";
    if (holder.kernel)
        return text + "the kernel (soft-RoCE? \"rdma link\" shows it, \"rdma link delete\" frees the port)";
    if (holder.pid) return text + process_name(holder.pid) + " (pid " + std::to_string(holder.pid) + ")";
    return text + "a program of user " + std::to_string(holder.user);
}

}  // namespace

bool wait_for_port(std::uint16_t port, Duration patience_with_ours, std::string& note) {
    const Time begin = now();
    Time kernel_since = kNever;
    for (;;) {
        const int error = probe(port);
        if (error == 0) return true;
        note = "UDP port " + std::to_string(port) + " cannot be bound: " + std::strerror(error);
        if (error != EADDRINUSE) return false;
        const Holder answer = ask_holder(port, note);
        if (answer == Holder::busy) return false;
        const std::vector<PortHolder> holders = holders_of_udp_port(port);
        if (!holders.empty()) note = describe(port, holders.front());
        // Kernel sockets stay; but those of a process that is about to end look like them until the last is
        // closed, which takes as long as the machine lets it wait. Other programs may be those of a dead
        // daemon; they let go when they notice.
        const bool kernel =
            std::any_of(holders.begin(), holders.end(), [](const PortHolder& h) { return h.kernel; });
        if (!kernel)
            kernel_since = kNever;
        else if (kernel_since == kNever)
            kernel_since = now();
        const bool ours = std::any_of(holders.begin(), holders.end(),
                                      [](const PortHolder& h) { return h.pid != 0 || h.user == geteuid(); });
        const bool leaving = answer == Holder::leaving;
        const Duration patience = ours || leaving || kernel ? patience_with_ours : kPatienceWithOthers;
        if (now() - kernel_since > kPatienceWithKernel || now() > begin + patience) return false;
        timespec pause{0, kPause};
        nanosleep(&pause, nullptr);
    }
}

void YieldListener::open(Loop& loop, std::uint16_t port, Ask ask) {
    int fd = host::listen_on(host::port_address(port), 16);
    if (fd < 0) {
        log(LogLevel::info, "nobody can ask for UDP port %u: %s", port, std::strerror(-fd));
        return;
    }
    listener_.reset(fd);
    loop.add(fd, EPOLLIN, [this, ask = std::move(ask)](std::uint32_t) {
        Descriptor asking(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!asking) return;
        const Answer answer = ask();
        const std::string text = answer.leaving ? "leaving" : answer.holder;
        const iovec part{const_cast<char*>(text.data()), text.size()};
        host::send_datagram(asking.get(), std::span(&part, 1), {}, MSG_DONTWAIT);
    });
}

void YieldListener::close(Loop& loop) {
    if (!listener_) return;
    loop.remove(listener_.get());
    listener_.reset();
}

}  // namespace verbena::daemon
