// What the machine itself can do with small datagrams: one process sends them sixteen a call, another takes
// what comes. Each carries what the packet of an 8-byte SEND does: BTH, payload, ICRC.
//
//     sendmmsg_rate [NAMESPACE NAMESPACE ADDRESS]   from the second to the first, which has that address;
//     else loopback
//                                                   prints millions of datagrams a second that arrived
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <string>

#include "two_processes.h"

using namespace verbena::scale;

namespace {

constexpr unsigned kBatch = 16;
constexpr std::size_t kBytes = 12 + 8 + 4;
constexpr int kReceiveBuffer = 8 << 20;
constexpr auto kWarmUp = std::chrono::milliseconds(200), kMeasured = std::chrono::milliseconds(1000);

using Clock = std::chrono::steady_clock;

class Batch {
   public:
    Batch() {
        for (unsigned i = 0; i < kBatch; i++) {
            parts_[i] = {bytes_[i].data(), kBytes};
            messages_[i].msg_hdr.msg_iov = &parts_[i];
            messages_[i].msg_hdr.msg_iovlen = 1;
        }
    }
    mmsghdr* messages() { return messages_.data(); }

   private:
    std::array<std::array<char, kBytes>, kBatch> bytes_{};
    std::array<iovec, kBatch> parts_{};
    std::array<mmsghdr, kBatch> messages_{};
};

// A socket stays where it was made.
int datagram_socket(const char* name) {
    if (name) {
        const std::string path = std::string("/run/netns/") + name;
        const int place = open(path.c_str(), O_RDONLY | O_CLOEXEC);
        if (place < 0 || setns(place, CLONE_NEWNET)) fail(path.c_str());
        close(place);
    }
    const int made = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    if (made < 0) fail("socket");
    return made;
}

double receive(int socket) {
    Batch batch;
    const auto run = [&](auto how_long) {
        unsigned received = 0;
        for (const auto end = Clock::now() + how_long; Clock::now() < end;) {
            const int count = recvmmsg(socket, batch.messages(), kBatch, 0, nullptr);
            if (count > 0) received += static_cast<unsigned>(count);
        }
        return received;
    };
    run(kWarmUp);
    return run(kMeasured) / std::chrono::duration<double>(kMeasured).count() / 1e6;
}

// Until it is ended.
[[noreturn]] void send(int socket) {
    for (Batch batch;;)
        if (sendmmsg(socket, batch.messages(), kBatch, 0) < 0 && errno != EAGAIN) fail("sendmmsg");
}

}  // namespace

int main(int count, char** words) {
    if (count != 1 && count != 4) {
        std::fprintf(stderr, "sendmmsg_rate [NAMESPACE NAMESPACE ADDRESS]\n");
        return 2;
    }
    const int in = datagram_socket(count > 1 ? words[1] : nullptr);
    setsockopt(in, SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBuffer, sizeof kReceiveBuffer);
    sockaddr_in address{};
    socklen_t size = sizeof address;
    address.sin_family = AF_INET;
    inet_pton(AF_INET, count > 1 ? words[3] : "127.0.0.1", &address.sin_addr);
    if (bind(in, reinterpret_cast<sockaddr*>(&address), size)) fail("bind");
    getsockname(in, reinterpret_cast<sockaddr*>(&address), &size);
    const int out = datagram_socket(count > 1 ? words[2] : nullptr);
    if (connect(out, reinterpret_cast<sockaddr*>(&address), size)) fail("connect");
    const pid_t sender = start_on(0, [&] { send(out); });
    stay_on(1);
    std::printf("%.3f M datagrams/s\n", receive(in));
    kill(sender, SIGKILL);
    waitpid(sender, nullptr, 0);
    return 0;
}
