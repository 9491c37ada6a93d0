// What the machine itself takes for an answered message by packets: one way, a segmentation burst of an
// 8-byte SEND's packet and an acknowledgement's, from sockets as ours, that are asked for what ours are asked
// for. Both ends poll; nothing of the transport is in between.
//
//     bare_answer [COUNT]        over loopback; prints us one way, median
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "two_processes.h"

using namespace verbena::scale;

namespace {

constexpr std::uint16_t kMessage = 12 + 8 + 4;        // BTH, payload, ICRC
constexpr std::size_t kAcknowledgement = 12 + 4 + 4;  // BTH, AETH, ICRC
constexpr std::size_t kTakes = 65536;

using Clock = std::chrono::steady_clock;

void must(int result, const char* what) {
    if (result < 0) fail(what);
}
void ask_for(int socket, int level, int option) {
    const int on = 1;
    must(setsockopt(socket, level, option, &on, sizeof on), "setsockopt");
}

class End {
   public:
    explicit End(int to_other) : incoming_(kTakes) {
        receives_ = socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK, 0);
        must(receives_, "socket");
        ask_for(receives_, IPPROTO_UDP, UDP_GRO);
        ask_for(receives_, IPPROTO_IPV6, IPV6_RECVPKTINFO);
        ask_for(receives_, IPPROTO_IPV6, IPV6_RECVHOPLIMIT);
        ask_for(receives_, IPPROTO_IPV6, IPV6_RECVTCLASS);
        ask_for(receives_, IPPROTO_IP, IP_RECVTTL);
        ask_for(receives_, IPPROTO_IP, IP_RECVTOS);
        sockaddr_in6 mine{};
        mine.sin6_family = AF_INET6;
        socklen_t size = sizeof mine;
        must(bind(receives_, reinterpret_cast<sockaddr*>(&mine), size), "bind");
        must(getsockname(receives_, reinterpret_cast<sockaddr*>(&mine), &size), "getsockname");
        sends_ = socket(AF_INET, SOCK_DGRAM, 0);
        must(sends_, "socket");
        other_.sin_family = AF_INET;
        other_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        tell(to_other, mine.sin6_port);
        other_.sin_port = hear<in_port_t>(to_other);
        prepare();
    }

    void send() {
        if (sendmmsg(sends_, &out_, 1, 0) != 1) fail("sendmmsg");
    }
    void wait() {
        for (;;) {
            iovec place{incoming_.data(), incoming_.size()};
            mmsghdr in{};
            in.msg_hdr.msg_name = &from_;
            in.msg_hdr.msg_namelen = sizeof from_;
            in.msg_hdr.msg_iov = &place;
            in.msg_hdr.msg_iovlen = 1;
            in.msg_hdr.msg_control = told_.data();
            in.msg_hdr.msg_controllen = told_.size();
            const int count = recvmmsg(receives_, &in, 1, MSG_DONTWAIT, nullptr);
            if (count == 1 && in.msg_len != bytes_.size()) {
                std::fprintf(stderr, "a burst did not come in one piece\n");
                std::exit(1);
            }
            if (count == 1) return;
            if (count < 0 && errno != EAGAIN) fail("recvmmsg");
        }
    }

   private:
    void prepare() {
        burst_ = {bytes_.data(), bytes_.size()};
        out_.msg_hdr.msg_name = &other_;
        out_.msg_hdr.msg_namelen = sizeof other_;
        out_.msg_hdr.msg_iov = &burst_;
        out_.msg_hdr.msg_iovlen = 1;
        out_.msg_hdr.msg_control = asked_.data();
        in_pktinfo source{};
        source.ipi_spec_dst.s_addr = htonl(INADDR_LOOPBACK);
        add(IPPROTO_IP, IP_PKTINFO, source);
        add(IPPROTO_UDP, UDP_SEGMENT, kMessage);
    }
    template <class Value>
    void add(int level, int type, const Value& value) {
        auto* const header = reinterpret_cast<cmsghdr*>(asked_.data() + out_.msg_hdr.msg_controllen);
        header->cmsg_level = level;
        header->cmsg_type = type;
        header->cmsg_len = CMSG_LEN(sizeof value);
        std::memcpy(CMSG_DATA(header), &value, sizeof value);
        out_.msg_hdr.msg_controllen += CMSG_SPACE(sizeof value);
    }

    int receives_ = -1, sends_ = -1;
    sockaddr_in other_{};
    sockaddr_in6 from_{};
    std::array<char, kMessage + kAcknowledgement> bytes_{};
    iovec burst_{};
    mmsghdr out_{};
    alignas(cmsghdr) std::array<char, 128> asked_{};
    alignas(cmsghdr) std::array<char, 256> told_{};
    std::vector<char> incoming_;
};

}  // namespace

int main(int words, char** word) {
    const unsigned count = words > 1 ? static_cast<unsigned>(std::stoul(word[1])) : 30000;
    return run_pair(
        [count](int socket) {
            End end(socket);
            meet(socket);
            for (unsigned n = 0; n < count; n++) {
                end.wait();
                end.send();
            }
        },
        [count](int socket) {
            End end(socket);
            meet(socket);
            std::vector<double> us;
            for (unsigned n = 0; n < count; n++) {
                const auto begin = Clock::now();
                end.send();
                end.wait();
                us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / 2);
            }
            std::nth_element(us.begin(), us.begin() + count / 2, us.end());
            std::printf("%.3f us\n", us[count / 2]);
        });
}
