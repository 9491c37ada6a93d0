// An epoll set, with a socket in it to which something happens just as it is looked at.
#include "rsocket/epoll.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "rdmacm/abi/public.h"
#include "rsocket/table.h"

namespace verbena::rsocket {
namespace {

// As a stream's, its descriptor becomes readable once for each arm(), by what arrives afterwards, and is
// armed again only when that was drained.
class Arriving final : public Socket {
   public:
    Arriving() : Socket(AF_INET) {}
    void behind_the_next_look() { late_ = true; }
    void arrive() {
        ready_ = true;
        if (std::exchange(notifies_, false)) nudge();
    }
    void take() { ready_ = false; }
    // As a stream's that a call of the program's made ready: its descriptor says nothing of it.
    void change() {
        ready_ = true;
        wake_all();
    }
    unsigned looks() const { return looks_; }

    short readiness(short wanted, const Waker*) override {
        const bool ready = ready_;
        looks_++;
        if (std::exchange(late_, false)) arrive();
        return ready ? wanted & POLLIN : short{0};
    }
    void arm() override {
        if (!std::exchange(armed_, true)) notifies_ = true;
    }
    void drain(const Waker* self) override {
        if (!drain_nudge()) return;
        armed_ = false;
        note_arrival(self);
    }

    int type() const override { return SOCK_STREAM; }
    int bind(const Address&) override { return -1; }
    int listen(int) override { return -1; }
    std::shared_ptr<Socket> accept() override { return nullptr; }
    int connect(const Address&) override { return -1; }
    ssize_t send(Cursor, int, const Address*) override { return -1; }
    ssize_t receive(Cursor, int, Address*, int*) override { return -1; }
    int shutdown(int) override { return -1; }
    void close() override {}
    int local_address(Address&) override { return -1; }
    int peer_address(Address&) override { return -1; }
    std::size_t readable_bytes() override { return 0; }
    Settings settings() override { return {}; }
    int change(const Settings&) override { return 0; }
    int take_error() override { return 0; }

   private:
    bool ready_ = false, armed_ = false, notifies_ = false, late_ = false;
    unsigned looks_ = 0;
};

std::shared_ptr<Arriving> open_socket() {
    auto socket = std::make_shared<Arriving>();
    EXPECT_EQ(socket->open(), 0);
    insert_socket(socket);
    return socket;
}

class EpollSets : public testing::Test {
   protected:
    static constexpr int kLong = 10'000;  // ms, for what is there already
    ~EpollSets() override {
        rclose(socket_->fd());
        rclose(set_);
    }
    void add(int fd, std::uint32_t events, std::uint64_t data) {
        epoll_event event{events, {}};
        event.data.u64 = data;
        ASSERT_EQ(repoll_ctl(set_, EPOLL_CTL_ADD, fd, &event), 0);
    }
    // The data of the events found.
    std::vector<std::uint64_t> wait(int room, int ms) {
        std::vector<epoll_event> events(static_cast<std::size_t>(room));
        const int found = repoll_wait(set_, events.data(), room, ms);
        std::vector<std::uint64_t> data;
        for (int i = 0; i < found; i++)
            data.emplace_back(std::uint64_t{events[static_cast<std::size_t>(i)].data.u64});
        return data;
    }

    const int set_ = repoll_create(EPOLL_CLOEXEC);
    const std::shared_ptr<Arriving> socket_ = open_socket();
};

using Data = std::vector<std::uint64_t>;

TEST_F(EpollSets, hears_of_what_comes_behind_a_look) {
    for (const std::uint32_t how : {std::uint32_t{EPOLLIN}, EPOLLIN | std::uint32_t{EPOLLET}}) {
        add(socket_->fd(), how, 7);
        EXPECT_EQ(wait(4, 0), Data{});
        const Time begin = now();
        for (int i = 0; i < 3; i++) {
            socket_->arrive();
            EXPECT_EQ(wait(4, kLong), Data{7});
            socket_->arm();
            socket_->arrive();
            socket_->drain(nullptr);  // by a reader: it is not armed any more,
            socket_->take();          // and has nothing to say
            socket_->behind_the_next_look();
            EXPECT_EQ(wait(4, kLong), Data{7});
            socket_->take();
        }
        EXPECT_LT(now() - begin, kLong * kMillisecond) << "found at the end of the time";
        ASSERT_EQ(repoll_ctl(set_, EPOLL_CTL_DEL, socket_->fd(), nullptr), 0);
    }
}

TEST_F(EpollSets, tells_an_edge_that_another_thread_took_from_the_descriptor) {
    add(socket_->fd(), EPOLLIN | EPOLLET, 7);
    socket_->arrive();
    while (wait(4, 0) != Data{}) {  // until it is no news, though it still holds
    }
    socket_->arm();
    socket_->arrive();
    socket_->drain(nullptr);  // as another set, or a reader, does
    EXPECT_EQ(wait(4, kLong), Data{7});
}

TEST_F(EpollSets, hears_of_what_no_descriptor_says) {
    for (const std::uint32_t how : {std::uint32_t{EPOLLIN}, EPOLLIN | std::uint32_t{EPOLLET}}) {
        add(socket_->fd(), how, 7);
        EXPECT_EQ(wait(4, 0), Data{});
        std::thread changer([&] {
            usleep(20'000);
            socket_->change();
        });
        EXPECT_EQ(wait(4, kLong), Data{7});
        changer.join();
        socket_->take();
        ASSERT_EQ(repoll_ctl(set_, EPOLL_CTL_DEL, socket_->fd(), nullptr), 0);
    }
}

TEST_F(EpollSets, looks_at_those_alone_that_have_something_to_say) {
    std::vector<std::shared_ptr<Arriving>> quiet(50);
    for (auto& socket : quiet) {
        socket = open_socket();
        add(socket->fd(), EPOLLIN, 1);
    }
    add(socket_->fd(), EPOLLIN, 7);
    EXPECT_EQ(wait(4, 0), Data{});
    const auto looks = [&] {
        unsigned sum = 0;
        for (const auto& socket : quiet) sum += socket->looks();
        return sum;
    };
    const unsigned before = looks();
    for (int i = 0; i < 10; i++) {
        socket_->arrive();
        EXPECT_EQ(wait(4, kLong), Data{7});
        socket_->take();
        EXPECT_EQ(wait(4, 0), Data{});
    }
    EXPECT_EQ(looks(), before);
    for (const auto& socket : quiet) rclose(socket->fd());
}

TEST_F(EpollSets, one_shot_is_told_again_when_modified) {
    epoll_event event{EPOLLIN | EPOLLONESHOT, {}};
    event.data.u64 = 7;
    add(socket_->fd(), event.events, 7);
    socket_->arrive();
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(wait(4, kLong), Data{7});
        EXPECT_EQ(wait(4, 0), Data{});
        socket_->arrive();
        EXPECT_EQ(wait(4, 0), Data{});
        ASSERT_EQ(repoll_ctl(set_, EPOLL_CTL_MOD, socket_->fd(), &event), 0);
    }
}

TEST_F(EpollSets, those_that_are_ready_take_turns) {
    std::vector<std::shared_ptr<Arriving>> sockets(5);
    for (std::size_t i = 0; i < sockets.size(); i++) {
        sockets[i] = open_socket();
        add(sockets[i]->fd(), EPOLLIN, i);
        sockets[i]->arrive();
    }
    std::vector<unsigned> turns(sockets.size());
    for (std::size_t i = 0; i < 4 * sockets.size(); i++)
        for (const std::uint64_t who : wait(1, kLong)) turns[who]++;
    EXPECT_EQ(turns, std::vector<unsigned>(sockets.size(), 4));
    for (const auto& socket : sockets) rclose(socket->fd());
}

// Its files are closed when the child ends: until then they stand in the kernel's sets.
TEST_F(EpollSets, sleeps_though_a_child_has_what_was_closed) {
    auto gone = open_socket();
    add(gone->fd(), EPOLLIN, 1);
    EXPECT_EQ(wait(4, 0), Data{});
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        char byte;
        ::close(ends[1]);
        _exit(static_cast<int>(read(ends[0], &byte, 1)));
    }
    gone->arrive();
    rclose(gone->fd());
    gone.reset();
    add(socket_->fd(), EPOLLIN, 7);
    timespec before{}, after{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    EXPECT_EQ(wait(4, 200), Data{});
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    EXPECT_LT((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1'000'000, 100);
    socket_->arrive();
    EXPECT_EQ(wait(4, kLong), Data{7});
    ::close(ends[1]);
    ::close(ends[0]);
    waitpid(child, nullptr, 0);
}

// Half of its turns, where there is room for one.
TEST_F(EpollSets, descriptors_that_are_no_rsockets_get_their_turn) {
    const int other = eventfd(1, EFD_NONBLOCK);
    add(socket_->fd(), EPOLLIN, 1);
    add(other, EPOLLIN, 2);
    socket_->arrive();
    unsigned turns[3]{};
    for (int i = 0; i < 20; i++)
        for (const std::uint64_t who : wait(1, kLong)) turns[who]++;
    EXPECT_GE(turns[1], 5u);
    EXPECT_GE(turns[2], 5u);
    EXPECT_EQ(wait(2, kLong).size(), 2u);
    ::close(other);
}

TEST_F(EpollSets, keeps_what_finds_no_room) {
    for (const std::uint32_t once : {std::uint32_t{EPOLLET}, std::uint32_t{EPOLLONESHOT}}) {
        constexpr int kMany = 5;
        int others[kMany];
        socket_->arrive();
        add(socket_->fd(), EPOLLIN | once, 100);
        for (int i = 0; i < kMany; i++) {
            others[i] = eventfd(1, EFD_NONBLOCK);
            add(others[i], EPOLLIN | once, static_cast<std::uint64_t>(i));
        }
        Data found;
        for (Data some; !(some = wait(2, 0)).empty();) found.insert(found.end(), some.begin(), some.end());
        std::sort(found.begin(), found.end());
        EXPECT_EQ(found, (Data{0, 1, 2, 3, 4, 100}));
        for (const int other : others) ::close(other);
        ASSERT_EQ(repoll_ctl(set_, EPOLL_CTL_DEL, socket_->fd(), nullptr), 0);
        socket_->take();
    }
}

TEST_F(EpollSets, is_readable_itself_while_something_is_ready) {
    add(socket_->fd(), EPOLLIN, 1);
    pollfd look{set_, POLLIN, 0};
    EXPECT_EQ(wait(1, 0), Data{});
    EXPECT_EQ(poll(&look, 1, 0), 0);
    socket_->arrive();
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(poll(&look, 1, 0), 1);
        EXPECT_EQ(wait(1, 0), Data{1});
    }
    socket_->take();
    while (wait(1, 0) != Data{}) {
    }
    EXPECT_EQ(poll(&look, 1, 0), 0);
}

TEST_F(EpollSets, any_data_is_the_programs) {
    const int other = eventfd(1, EFD_NONBLOCK);
    for (const std::uint64_t data : {UINT64_MAX, UINT64_MAX - 1, std::uint64_t{0}}) {
        add(other, EPOLLIN, data);
        EXPECT_EQ(wait(4, kLong), Data{data});
        ASSERT_EQ(repoll_ctl(set_, EPOLL_CTL_DEL, other, nullptr), 0);
    }
    ::close(other);
}

}  // namespace
}  // namespace verbena::rsocket
