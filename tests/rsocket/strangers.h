// A datagram socket and a stranger: a plain socket of the kernel's that says what a datagram socket's peers
// say over UDP (rsocket/wire.h).
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "api.h"

namespace verbena::rsocket_test {

class Strangers : public Sockets {
   protected:
    static constexpr char kData = 0, kControl = 7;  // operations

    ~Strangers() override {
        if (stranger_ >= 0) ::close(stranger_);
    }

    void SetUp() override {
        stranger_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        ASSERT_GE(stranger_, 0);
    }
    void meet(const char* at) {
        stranger_name_ = at_address(at);
        ASSERT_EQ(outcome(::bind(stranger_, stranger_name_.get(), stranger_name_.length)), outcome(0));
        ASSERT_EQ(outcome(::getsockname(stranger_, stranger_name_.get(), &stranger_name_.length)),
                  outcome(0));
    }
    void say(char operation, const std::string& data, Name& to) {
        constexpr char kNobodysQpn = 5;
        std::string message;
        if (!kernel())
            message = {0x55, 0x55, 0x55, 0x55, 4, operation, 16, 0, 0, 0, 0, kNobodysQpn, 127, 0, 0, 1};
        message += data;
        ASSERT_EQ(outcome(::sendto(stranger_, message.data(), message.size(), 0, to.get(), to.length)),
                  outcome(static_cast<long>(message.size())));
    }

    int bound(Name& name) {
        const int fd = open(AF_INET, SOCK_DGRAM);
        EXPECT_EQ(outcome(api().bind(fd, name.get(), name.length)), outcome(0));
        EXPECT_EQ(outcome(api().getsockname(fd, name.get(), &name.length)), outcome(0));
        return fd;
    }
    static Name at_address(const char* text, std::uint16_t port = 0) {
        sockaddr_in in{};
        in.sin_family = AF_INET;
        in.sin_port = htons(port);
        EXPECT_EQ(inet_pton(AF_INET, text, &in.sin_addr), 1);
        Name name;
        std::memcpy(&name.storage, &in, sizeof in);
        return name;
    }
    void expect_data(int fd, const std::string& data, Name& from) {
        char room[100];
        ASSERT_TRUE(readable(fd));
        Name source;
        ASSERT_EQ(outcome(api().recvfrom(fd, room, sizeof room, 0, source.get(), &source.length)),
                  outcome(static_cast<long>(data.size())));
        EXPECT_EQ(std::string(room, data.size()), data);
        EXPECT_EQ(std::memcmp(&source.storage, &from.storage, sizeof(sockaddr_in)), 0);
    }

    int stranger_ = -1;
    Name stranger_name_;
};

}  // namespace verbena::rsocket_test
