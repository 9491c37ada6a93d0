// Epoll sets with several threads at several sockets: a wake-up that is lost is seen as a wait that ends
// without anything.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "api.h"

namespace verbena::rsocket_test {
namespace {

constexpr int kLong = 10'000;  // ms, for what comes at once

class EpollSet : public StreamSockets {
   protected:
    void SetUp() override {
        StreamSockets::SetUp();
        set_ = api().epoll_create1(EPOLL_CLOEXEC);
        stop_ = eventfd(0, EFD_CLOEXEC);
        add(stop_, EPOLLIN);
    }
    void TearDown() override {
        api().close(set_);
        ::close(stop_);
        StreamSockets::TearDown();
    }
    void add(int fd, std::uint32_t events) {
        epoll_event event{events, {}};
        event.data.fd = fd;
        ASSERT_EQ(outcome(api().epoll_ctl(set_, EPOLL_CTL_ADD, fd, &event)), outcome(0));
    }
    // All threads that wait leave.
    void stop() { ASSERT_EQ(write(stop_, "\1\0\0\0\0\0\0\0", 8), 8); }
    // Calls act(fd) for what is ready, until stop() or until nothing is for long.
    template <class Act>
    void serve(int room, Act act) {
        for (;;) {
            epoll_event events[8];
            const int found = api().epoll_wait(set_, events, room, kLong);
            if (found == 0) {
                ADD_FAILURE() << "a wake-up was lost";
                return;
            }
            for (int i = 0; i < found; i++) {
                if (events[i].data.fd == stop_) return;
                act(events[i].data.fd);
            }
        }
    }
    // Until there is no more.
    void echo(int fd) {
        char data[256];
        for (ssize_t size; (size = api().recv(fd, data, sizeof data, MSG_DONTWAIT)) > 0;)
            EXPECT_EQ(api().send(fd, data, static_cast<std::size_t>(size), 0), size);
    }

    int set_ = -1, stop_ = -1;
};

INSTANTIATE_TEST_SUITE_P(, EpollSet, testing::Values(&kKernel, &kRsockets), name_of);

TEST_P(EpollSet, no_question_goes_unanswered) {
    constexpr int kPairs = 6, kRounds = 150;
    std::vector<Pair> pairs;
    for (int i = 0; i < kPairs; i++) {
        pairs.push_back(connected());
        add(pairs.back().server, i % 2 ? EPOLLIN | EPOLLET : std::uint32_t{EPOLLIN});
    }
    std::vector<std::thread> servers, clients;
    for (const int room : {1, 8})
        servers.emplace_back([this, room] { serve(room, [&](int fd) { echo(fd); }); });
    for (const Pair& pair : pairs)
        clients.emplace_back([this, &pair] {
            for (int round = 0; round < kRounds; round++) {
                const std::string question = pattern(static_cast<std::size_t>(1 + round % 100));
                ASSERT_EQ(api().send(pair.client, question.data(), question.size(), 0),
                          ssize_t(question.size()));
                ASSERT_EQ(receive(pair.client, question.size()), question);
            }
        });
    for (auto& client : clients) client.join();
    stop();
    for (auto& server : servers) server.join();
}

// What makes room comes while another thread of the sender's receives on the same socket, and may be the one
// to process it.
TEST_P(EpollSet, who_waits_for_room_hears_of_it) {
    constexpr std::size_t kTotal = 4 << 20;
    for (const std::uint32_t how : {std::uint32_t{EPOLLOUT}, EPOLLOUT | std::uint32_t{EPOLLET}}) {
        const Pair pair = connected();
        const std::string data = pattern(50'000);
        std::size_t sent = 0;
        add(pair.client, how);
        std::thread writer([&] {
            serve(2, [&](int fd) {
                while (sent < kTotal) {
                    const ssize_t size =
                        api().send(fd, data.data(), std::min(data.size(), kTotal - sent), MSG_DONTWAIT);
                    if (size < 0) break;
                    sent += static_cast<std::size_t>(size);
                }
                if (sent == kTotal)
                    api().epoll_ctl(set_, EPOLL_CTL_DEL, fd, nullptr), api().shutdown(fd, SHUT_WR), stop();
            });
        });
        std::thread reader([&] {
            char byte;
            while (api().recv(pair.client, &byte, 1, 0) > 0) {
            }
        });
        std::vector<char> room(30'000);
        std::size_t got = 0;
        for (ssize_t size;
             readable(pair.server) && (size = api().recv(pair.server, room.data(), room.size(), 0)) > 0;) {
            got += static_cast<std::size_t>(size);
            EXPECT_EQ(api().send(pair.server, "x", 1, 0), 1);
        }
        EXPECT_EQ(got, kTotal);
        writer.join();
        api().shutdown(pair.server, SHUT_RDWR);
        reader.join();
        std::uint64_t count;
        ASSERT_EQ(read(stop_, &count, sizeof count), ssize_t(sizeof count));
    }
}

}  // namespace
}  // namespace verbena::rsocket_test
