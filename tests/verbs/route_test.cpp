// An address vector whose destination has no route is refused when it is set up, with the errno that a socket
// gets: nothing would ever answer. Which addresses have one is the machine's matter, so the test asks it.
// Another host's has none in any case, for the tests have a fabric of their own.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "harness.h"

namespace verbena::verbs_test {
namespace {

// Documentation's networks, and the loopback one.
constexpr const char* kAddresses[] = {"203.0.113.9", "198.51.100.1", "127.0.0.1"};

int kernels_answer(const in_addr& address) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(9);
    to.sin_addr = address;
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const int error = connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 ? 0 : errno;
    close(fd);
    return error;
}

TEST(Route, IsAskedForWhenAnAddressVectorIsSetUp) {
    Options options;
    options.connect = false;
    for (const char* text : kAddresses) {
        Side side(options);
        ASSERT_EQ(side.to_init(), 0);
        in_addr address{};
        ASSERT_EQ(inet_pton(AF_INET, text, &address), 1);
        ibv_gid destination{};
        destination.raw[10] = destination.raw[11] = 0xff;
        std::memcpy(destination.raw + 12, &address, 4);
        const bool own = std::strcmp(text, "127.0.0.1") == 0;
        const int route = kernels_answer(address);
        const int expected = route || own ? route : ENETUNREACH;
        EXPECT_EQ(side.to_rtr(destination, 77), expected) << text;
        if (route == 0 && !own) {
            const std::string reason = new_log();
            EXPECT_NE(reason.find("cannot be reached from 127.0.0.1"), std::string::npos) << reason;
        }
        EXPECT_EQ(side.state(), expected ? IBV_QPS_INIT : IBV_QPS_RTR) << text;

        ibv_ah_attr vector{};
        vector.is_global = 1;
        vector.port_num = 1;
        vector.grh.dgid = destination;
        errno = 0;
        ibv_ah* handle = ibv_create_ah(side.pd, &vector);
        EXPECT_EQ(handle ? 0 : errno, expected) << text;
        if (handle) {
            EXPECT_EQ(ibv_destroy_ah(handle), 0);
        }
    }
}

}  // namespace
}  // namespace verbena::verbs_test
