// Options of streams: TCP's, and those of rsocket(7).
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>

#include <cerrno>
#include <cstddef>

#include "api.h"

namespace verbena::rsocket_test {
namespace {

class Options : public StreamSockets {};

INSTANTIATE_TEST_SUITE_P(, Options, testing::Values(&kKernel, &kRsockets), name_of);

TEST_P(Options, options) {
    const int fd = open();
    struct Row {
        int level, name, value;
    };
    for (const Row& row : {Row{SOL_SOCKET, SO_REUSEADDR, 1}, Row{SOL_SOCKET, SO_KEEPALIVE, 1},
                           Row{SOL_SOCKET, SO_OOBINLINE, 1}, Row{IPPROTO_TCP, TCP_NODELAY, 1},
                           Row{IPPROTO_TCP, TCP_KEEPIDLE, 17}, Row{IPPROTO_TCP, TCP_KEEPINTVL, 5},
                           Row{IPPROTO_TCP, TCP_KEEPCNT, 3}}) {
        EXPECT_EQ(outcome(api().setsockopt(fd, row.level, row.name, &row.value, sizeof row.value)),
                  outcome(0));
        EXPECT_EQ(option(fd, row.level, row.name), row.value) << row.level << " " << row.name;
    }
    EXPECT_EQ(option(fd, SOL_SOCKET, SO_TYPE), SOCK_STREAM);
    EXPECT_EQ(option(fd, SOL_SOCKET, SO_ACCEPTCONN), 0);
    EXPECT_EQ(option(fd, SOL_SOCKET, SO_ERROR), 0);
    int value = 1 << 16;
    EXPECT_EQ(outcome(api().setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, sizeof value)), outcome(0));
    EXPECT_EQ(option(fd, SOL_SOCKET, SO_RCVBUF), kernel() ? 1 << 17 : 1 << 16);
    linger lingering{1, 7}, back{};
    socklen_t size = sizeof back;
    EXPECT_EQ(outcome(api().setsockopt(fd, SOL_SOCKET, SO_LINGER, &lingering, sizeof lingering)), outcome(0));
    EXPECT_EQ(outcome(api().getsockopt(fd, SOL_SOCKET, SO_LINGER, &back, &size)), outcome(0));
    EXPECT_EQ(back.l_linger, 7);
    EXPECT_EQ(outcome(api().setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &value, 2)), failed(EINVAL));
    EXPECT_EQ(outcome(api().setsockopt(fd, SOL_SOCKET, 9999, &value, sizeof value)), failed(ENOPROTOOPT));
    EXPECT_EQ(outcome(api().setsockopt(fd, IPPROTO_TCP, 9999, &value, sizeof value)), failed(ENOPROTOOPT));
    value = 0;
    EXPECT_EQ(outcome(api().setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &value, sizeof value)), failed(EINVAL));
}

// rsocket(7)'s own: a connection's path can be given to another.
TEST_P(Options, a_route_of_the_programs_own) {
    if (kernel()) GTEST_SKIP();
    Name name;
    const int listening = listener(name);
    const int first = open(), second = open();
    ASSERT_EQ(outcome(api().connect(first, name.get(), name.length)), outcome(0));
    ibv_path_data paths[4];
    socklen_t size = sizeof paths;
    ASSERT_EQ(outcome(api().getsockopt(first, SOL_RDMA, RDMA_ROUTE, paths, &size)), outcome(0));
    ASSERT_EQ(size, sizeof paths[0]);
    EXPECT_EQ(outcome(api().setsockopt(second, SOL_RDMA, RDMA_ROUTE, paths, size - 1)), failed(EINVAL));
    ASSERT_EQ(outcome(api().setsockopt(second, SOL_RDMA, RDMA_ROUTE, paths, size)), outcome(0));
    ASSERT_EQ(outcome(api().connect(second, name.get(), name.length)), outcome(0));
    for (int i = 0; i < 2; i++) EXPECT_EQ(api().close(api().accept(listening, nullptr, nullptr)), 0);
}

// More than a queue pair takes is cut to what it does.
TEST_P(Options, as_many_bytes_inline_as_there_can_be) {
    if (kernel()) GTEST_SKIP();
    Name name;
    const int listening = listener(name);
    const int fd = open();
    const int value = 60'000;
    ASSERT_EQ(outcome(api().setsockopt(fd, SOL_RDMA, RDMA_INLINE, &value, sizeof value)), outcome(0));
    EXPECT_EQ(option(fd, SOL_RDMA, RDMA_INLINE), 1024);
    ASSERT_EQ(outcome(api().connect(fd, name.get(), name.length)), outcome(0));
    EXPECT_EQ(api().close(api().accept(listening, nullptr, nullptr)), 0);
}

// What programs that measure ask for.
TEST_P(Options, tcp_info) {
    const auto state = [this](int fd) {
        tcp_info info{};
        socklen_t size = sizeof info;
        EXPECT_EQ(outcome(api().getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size)), outcome(0));
        EXPECT_GT(info.tcpi_snd_cwnd, 0u);
        return info.tcpi_state;
    };
    Pair pair = connected();
    EXPECT_EQ(state(pair.client), TCP_ESTABLISHED);
    EXPECT_EQ(state(open()), TCP_CLOSE);
    std::uint8_t first = 0;
    socklen_t size = sizeof first;
    EXPECT_EQ(outcome(api().getsockopt(pair.client, IPPROTO_TCP, TCP_INFO, &first, &size)), outcome(0));
    EXPECT_EQ(size, 1u);
    EXPECT_EQ(first, TCP_ESTABLISHED);
}

TEST_P(Options, a_congestion_control_may_be_asked_for) {
    const int fd = open();
    EXPECT_EQ(outcome(api().setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4)), outcome(0));
    char name[16];
    socklen_t size = sizeof name;
    EXPECT_EQ(outcome(api().getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size)),
              kernel() ? outcome(0) : failed(ENOPROTOOPT));
}

}  // namespace
}  // namespace verbena::rsocket_test
