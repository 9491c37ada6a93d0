// The calls of rsockets that a connection takes.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rsocket.h>

#include <array>
#include <cstring>

#include "shortage.h"

namespace verbena::shortage_test {
namespace {

struct Address {
    explicit Address(std::uint16_t port = 0) {
        in.sin_family = AF_INET;
        in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        in.sin_port = port;
    }
    sockaddr* get() { return static_cast<sockaddr*>(static_cast<void*>(&in)); }
    sockaddr_in in{};
    socklen_t length = sizeof in;
};

int end(int socket) {
    return without_memory([&] { return or_errno(rclose(socket)); });
}

// What a call answers that returns a number, into `out`.
int kept(int result, int& out) {
    out = result;
    return result < 0 ? errno : 0;
}

struct Listening {
    Listening() : socket(rsocket(AF_INET, SOCK_STREAM, 0)) {
        EXPECT_EQ(rbind(socket, address.get(), address.length), 0);
        EXPECT_EQ(rlisten(socket, 5), 0);
        EXPECT_EQ(rgetsockname(socket, address.get(), &address.length), 0);
    }
    ~Listening() { EXPECT_EQ(end(socket), 0); }
    Listening(const Listening&) = delete;
    Listening& operator=(const Listening&) = delete;

    Address address;
    int socket;
};

TEST(Rsockets, AreMadeOrNotByWhoMakesThemFirst) {
    int socket = -1;
    sweep_in_children(
        "rsocket", [&] { return kept(rsocket(AF_INET, SOCK_STREAM, 0), socket); },
        [&] { return end(socket); });
}

TEST(Rsockets, AreMadeOrNot) {
    int socket = -1;
    for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
        sweep(
            "rsocket", [&] { return kept(rsocket(AF_INET, type, 0), socket); }, [&] { return end(socket); });
        ASSERT_EQ(kept(rsocket(AF_INET, type, 0), socket), 0);
        Address any;
        sweep_until("rbind", [&] { return or_errno(rbind(socket, any.get(), any.length)); });
        if (type == SOCK_STREAM) sweep_until("rlisten", [&] { return or_errno(rlisten(socket, 5)); });
        EXPECT_EQ(end(socket), 0);
    }
}

TEST(Rsockets, ConnectOrNot) {
    Listening listening;
    for (const Lasts lasts : {Lasts::once, Lasts::on}) {
        bool was_short = true;
        for (unsigned spared = 0; was_short; spared++) {
            SCOPED_TRACE(spared);
            const int client = rsocket(AF_INET, SOCK_STREAM, 0);
            int error = 0;
            {
                const Shortage shortage(spared, lasts);
                error = or_errno(rconnect(client, listening.address.get(), listening.address.length));
                was_short = shortage.refused() > 0;
            }
            if (error != 0) {
                EXPECT_EQ(error, ENOMEM);
                EXPECT_TRUE(was_short);
            } else {
                int server = -1;
                ASSERT_EQ(kept(raccept(listening.socket, nullptr, nullptr), server), 0);
                EXPECT_EQ(end(server), 0);
            }
            EXPECT_EQ(end(client), 0);
        }
    }
}

TEST(Rsockets, Exchange) {
    Listening listening;
    const int client = rsocket(AF_INET, SOCK_STREAM, 0);
    ASSERT_EQ(rconnect(client, listening.address.get(), listening.address.length), 0);
    int server = -1;
    sweep_until("raccept", [&] { return kept(raccept(listening.socket, nullptr, nullptr), server); });
    std::array<char, 1000> out{}, in{};
    pollfd waiting{server, POLLIN, 0};
    sweep_until("rpoll", [&] { return or_errno(rpoll(&waiting, 1, 0)); });  // keeps what it makes
    ASSERT_EQ(without_memory([&] { return rpoll(&waiting, 1, 50); }), 0) << "it has to sleep";
    for (int round = 0; round < 200; round++) {
        out.fill(static_cast<char>(round));
        ASSERT_EQ(without_memory([&] { return static_cast<int>(rsend(client, out.data(), out.size(), 0)); }),
                  static_cast<int>(out.size()));
        ASSERT_EQ(without_memory([&] { return rpoll(&waiting, 1, 10'000); }), 1);
        ASSERT_EQ(without_memory(
                      [&] { return static_cast<int>(rrecv(server, in.data(), in.size(), MSG_WAITALL)); }),
                  static_cast<int>(in.size()));
        ASSERT_EQ(in, out);
    }
    EXPECT_EQ(end(server), 0);
    EXPECT_EQ(end(client), 0);
}

TEST(Rsockets, SendDatagrams) {
    const int sender = rsocket(AF_INET, SOCK_DGRAM, 0), receiver = rsocket(AF_INET, SOCK_DGRAM, 0);
    Address here;
    ASSERT_EQ(rbind(receiver, here.get(), here.length), 0);
    ASSERT_EQ(rgetsockname(receiver, here.get(), &here.length), 0);
    std::array<char, 100> out{}, in{};
    const auto send = [&] {
        return rsendto(sender, out.data(), out.size(), 0, here.get(), here.length) < 0 ? errno : 0;
    };
    sweep_until("rsendto", send);
    ASSERT_EQ(rrecv(receiver, in.data(), in.size(), 0), static_cast<ssize_t>(in.size()));
    EXPECT_EQ(end(sender), 0);
    EXPECT_EQ(end(receiver), 0);
}

}  // namespace
}  // namespace verbena::shortage_test
