// The descriptors of a completion channel and of a context's asynchronous events: readable if and only if an
// event waits, by every way of waiting; and that destruction waits for events that were taken and not
// acknowledged.
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "harness.h"

namespace verbena::verbs_test {
namespace {

Options with_channel() {
    Options options;
    options.with_channel = true;
    options.connect = false;
    return options;
}

// A source of events: how one is made, taken and acknowledged. taken: 0 or errno.
struct Source {
    explicit Source(bool is_completion) : completion_events(is_completion), side(with_channel()) {
        if (completion_events) return;
        EXPECT_EQ(side.to_init(), 0);
        EXPECT_EQ(side.to_rtr(side.gid(), side.qp->qp_num), 0);
        EXPECT_EQ(side.to_rts(), 0);
    }
    int fd() const { return completion_events ? side.channel->fd : side.context->async_fd; }

    void make() {
        if (completion_events) {
            // Each arming and each flushed receive give one event.
            EXPECT_EQ(side.to_state(IBV_QPS_ERR), 0);
            EXPECT_EQ(ibv_req_notify_cq(side.receive_cq, 0), 0);
            EXPECT_EQ(side.post_receive(1, nullptr, 0), 0);
            return;
        }
        ibv_qp_attr drain{};
        drain.qp_state = IBV_QPS_SQD;
        drain.en_sqd_async_notify = 1;
        EXPECT_EQ(ibv_modify_qp(side.qp, &drain, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
        drain.qp_state = IBV_QPS_RTS;
        EXPECT_EQ(ibv_modify_qp(side.qp, &drain, IBV_QP_STATE), 0);
    }
    int take(bool acknowledged = true) {
        if (completion_events) {
            void* context;
            if (int result = ibv_get_cq_event(side.channel, &taken_cq, &context))
                return result == -1 ? errno : -1;
            EXPECT_EQ(taken_cq, side.receive_cq);
            if (acknowledged) acknowledge();
            return 0;
        }
        if (int result = ibv_get_async_event(side.context, &event)) return result == -1 ? errno : -1;
        EXPECT_EQ(event.element.qp, side.qp);
        if (acknowledged) ibv_ack_async_event(&event);
        return 0;
    }
    void acknowledge() {
        if (completion_events)
            ibv_ack_cq_events(taken_cq, 1);
        else
            ibv_ack_async_event(&event);
    }
    // Blocks while events are not acknowledged.
    void destroy_object() {
        EXPECT_EQ(ibv_destroy_qp(std::exchange(side.qp, nullptr)), 0);
        if (completion_events) {
            EXPECT_EQ(ibv_destroy_cq(std::exchange(side.receive_cq, nullptr)), 0);
        }
    }
    void set_nonblocking() const { EXPECT_EQ(fcntl(fd(), F_SETFL, fcntl(fd(), F_GETFL) | O_NONBLOCK), 0); }

    const bool completion_events;
    Side side;
    ibv_async_event event{};  // the last one taken
    ibv_cq* taken_cq = nullptr;
};

class Descriptors : public testing::TestWithParam<bool> {
   public:
    Descriptors() : source(GetParam()) {}
    Source source;
};

bool selects(int fd) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    timeval none{};
    return select(fd + 1, &set, nullptr, nullptr, &none) == 1 && FD_ISSET(fd, &set);
}

int epoll_for(int fd, std::uint32_t events) {
    const int set = epoll_create1(EPOLL_CLOEXEC);
    epoll_event event{};
    event.events = events;
    EXPECT_EQ(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), 0);
    return set;
}

bool epolls(int set) {
    epoll_event event;
    return epoll_wait(set, &event, 1, 0) == 1;
}

TEST_P(Descriptors, PollSelectAndLevelEpollAgree) {
    const int set = epoll_for(source.fd(), EPOLLIN);
    int before = 0;
    for (int waiting : {0, 1, 2, 1, 0, 3, 2, 1, 0}) {
        for (; before < waiting; before++) source.make();
        for (; before > waiting; before--) ASSERT_EQ(source.take(), 0);
        EXPECT_EQ(readable(source.fd()), waiting > 0) << waiting;
        EXPECT_EQ(selects(source.fd()), waiting > 0) << waiting;
        EXPECT_EQ(epolls(set), waiting > 0) << waiting;
    }
    close(set);
}

// An edge for each event, whether or not earlier ones were taken.
TEST_P(Descriptors, EdgeEpoll) {
    const int set = epoll_for(source.fd(), EPOLLIN | EPOLLET);
    EXPECT_FALSE(epolls(set));
    for (int i = 0; i < 3; i++) {
        source.make();
        EXPECT_TRUE(epolls(set));
        EXPECT_FALSE(epolls(set));
    }
    for (int i = 0; i < 3; i++) ASSERT_EQ(source.take(), 0);
    EXPECT_FALSE(readable(source.fd()));
    source.make();
    EXPECT_TRUE(epolls(set));
    ASSERT_EQ(source.take(), 0);
    close(set);
}

TEST_P(Descriptors, NonblockingSaysEagain) {
    source.set_nonblocking();
    EXPECT_EQ(source.take(), EAGAIN);
    source.make();
    EXPECT_EQ(source.take(), 0);
    EXPECT_EQ(source.take(), EAGAIN);
}

TEST_P(Descriptors, BlocksUntilAnEventComes) {
    std::atomic<bool> took{false};
    std::thread taker([&] {
        EXPECT_EQ(source.take(), 0);
        took = true;
    });
    usleep(50'000);
    EXPECT_FALSE(took);
    source.make();
    taker.join();
    EXPECT_TRUE(took);
}

void ignore_signal(int) {}

// Sends SIGUSR1 to a thread that waits, until `done`.
void keep_interrupting(pthread_t thread, const std::atomic<bool>& done) {
    while (!done) {
        pthread_kill(thread, SIGUSR1);
        usleep(2'000);
    }
}

TEST_P(Descriptors, SignalEndsTheWait) {
    struct sigaction action {
    }, before;
    action.sa_handler = ignore_signal;
    ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
    std::atomic<bool> done{false};
    int error = 0;
    std::thread taker([&] {
        error = source.take();
        done = true;
    });
    usleep(20'000);
    keep_interrupting(taker.native_handle(), done);
    taker.join();
    EXPECT_EQ(error, EINTR);
    sigaction(SIGUSR1, &before, nullptr);
}

TEST_P(Descriptors, RestartingHandlerDoesNot) {
    struct sigaction action {
    }, before;
    action.sa_handler = ignore_signal;
    action.sa_flags = SA_RESTART;
    ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
    std::atomic<bool> done{false};
    int error = -1;
    std::thread taker([&] {
        error = source.take();
        done = true;
    });
    for (int i = 0; i < 20; i++) {
        pthread_kill(taker.native_handle(), SIGUSR1);
        usleep(2'000);
    }
    EXPECT_FALSE(done);
    source.make();
    taker.join();
    EXPECT_EQ(error, 0);
    sigaction(SIGUSR1, &before, nullptr);
}

TEST_P(Descriptors, DestructionTakesQueuedEventsBack) {
    source.make();
    source.make();
    ASSERT_TRUE(readable(source.fd()));
    source.destroy_object();
    EXPECT_FALSE(readable(source.fd()));
    source.set_nonblocking();
    EXPECT_EQ(source.take(), EAGAIN);
}

TEST_P(Descriptors, DestructionWaitsForAcknowledgements) {
    source.make();
    ASSERT_EQ(source.take(false), 0);
    std::atomic<bool> destroyed{false};
    std::thread destroyer([&] {
        source.destroy_object();
        destroyed = true;
    });
    usleep(50'000);
    EXPECT_FALSE(destroyed);
    source.acknowledge();
    destroyer.join();
}

INSTANTIATE_TEST_SUITE_P(Both, Descriptors, testing::Values(true, false), [](const auto& instance) {
    return instance.param ? "CompletionChannel" : "AsyncEvents";
});

}  // namespace
}  // namespace verbena::verbs_test
