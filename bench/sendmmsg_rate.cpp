// What the machine itself can do with small datagrams: one process sends them sixteen a call, another takes
// what comes. Each carries what the packet of an 8-byte SEND does: BTH, payload, ICRC. By sendmmsg(), or in
// segmentation bursts, that the kernel cuts into datagrams only if it has to.
//
//     sendmmsg_rate [bursts] [NAMESPACE NAMESPACE ADDRESS]
//                 from the second to the first, which has that address; else loopback
//                 prints millions of datagrams a second that arrived
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <string>
#include <string_view>

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

// Datagrams that one call finds.
std::size_t take_batch(int socket) {
    static Batch batch;
    const int count = recvmmsg(socket, batch.messages(), kBatch, 0, nullptr);
    return count > 0 ? static_cast<std::size_t>(count) : 0;
}
std::size_t take_burst(int socket) {
    static std::array<char, 1 << 16> bytes;
    const ssize_t size = recv(socket, bytes.data(), bytes.size(), 0);
    return size > 0 ? static_cast<std::size_t>(size) / kBytes : 0;
}

double receive(int socket, bool bursts) {
    const auto run = [&](auto how_long) {
        std::size_t received = 0;
        for (const auto end = Clock::now() + how_long; Clock::now() < end;)
            received += bursts ? take_burst(socket) : take_batch(socket);
        return static_cast<double>(received);
    };
    run(kWarmUp);
    return run(kMeasured) / std::chrono::duration<double>(kMeasured).count() / 1e6;
}

// Until it is ended.
[[noreturn]] void send_batches(int socket) {
    for (Batch batch;;)
        if (sendmmsg(socket, batch.messages(), kBatch, 0) < 0 && errno != EAGAIN) fail("sendmmsg");
}
[[noreturn]] void send_bursts(int socket) {
    for (const std::array<char, kBatch * kBytes> bytes{};;)
        if (send(socket, bytes.data(), bytes.size(), 0) < 0 && errno != EAGAIN) fail("send");
}

void set(int socket, int option, int value) {
    if (setsockopt(socket, SOL_UDP, option, &value, sizeof value)) fail("setsockopt");
}

}  // namespace

int main(int count, char** words) {
    const bool bursts = count > 1 && std::string_view(words[1]) == "bursts";
    if (bursts) count--, words++;
    if (count != 1 && count != 4) {
        std::fprintf(stderr, "sendmmsg_rate [bursts] [NAMESPACE NAMESPACE ADDRESS]\n");
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
    if (bursts) {
        set(in, UDP_GRO, 1);
        set(out, UDP_SEGMENT, kBytes);
    }
    const pid_t sender = start_on(0, [&] { bursts ? send_bursts(out) : send_batches(out); });
    stay_on(1);
    std::printf("%.3f M datagrams/s\n", receive(in, bursts));
    end(sender);
    return 0;
}
