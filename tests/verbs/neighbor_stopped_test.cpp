// Two processes of one host, one of which stands still for a while (SIGSTOP, a debugger).
#include <sys/syscall.h>
#include <sys/uio.h>

#include <thread>

#include "neighbor.h"

namespace verbena::verbs_test {
namespace {

// Large payloads that this process has begun to fetch; it stops in front of one, as it would anywhere.
std::atomic<int> fetches_until_stopped{0};

}  // namespace
}  // namespace verbena::verbs_test

// In place of the C library's, for Verbena's libraries, too.
extern "C" [[gnu::visibility("default")]] ssize_t process_vm_readv(pid_t pid, const iovec* local,
                                                                   unsigned long locals, const iovec* remote,
                                                                   unsigned long remotes,
                                                                   unsigned long flags) {
    constexpr std::size_t kLarge = 64 << 10;
    if (remotes > 0 && remote[0].iov_len > kLarge && verbena::verbs_test::fetches_until_stopped > 0 &&
        --verbena::verbs_test::fetches_until_stopped == 0)
        raise(SIGSTOP);  // this thread first
    return syscall(SYS_process_vm_readv, pid, local, locals, remote, remotes, flags);
}

namespace verbena::verbs_test {
namespace {

// A process that was stopped has not gone: the timeouts of a connection that is set up to notice a loss
// within 600 ms do not count. And one-sided operations need nothing of it at all.
TEST(Neighbor, ATargetIsStoppedForAWhile) {
    if (!by_memory()) GTEST_SKIP() << "over packets nobody knows that a peer stands still";
    Neighbor neighbor([](Here& there) {
        EXPECT_EQ(there.side.post_receive(9, there.memory.sge(0, kSize)), 0);
        there.meet();
        success(there.side.receive_cq);
        EXPECT_TRUE(there.memory.holds(7, kSize));
        there.meet();
    });
    Here here(neighbor.in, neighbor.out);
    here.meet();
    signal_process(neighbor.pid, SIGSTOP);
    int status;
    waitpid(neighbor.pid, &status, WUNTRACED);
    here.memory.fill(3);
    ASSERT_EQ(here.post(IBV_WR_RDMA_WRITE, kSize), 0);
    success(here.side.send_cq);
    here.memory.set_all(0);
    ASSERT_EQ(here.post(IBV_WR_RDMA_READ, kSize), 0);
    success(here.side.send_cq);
    EXPECT_TRUE(here.memory.holds(3, kSize));
    here.memory.fill(7);
    ASSERT_EQ(here.post(IBV_WR_SEND, kSize), 0);
    const auto until = Clock::now() + std::chrono::seconds(10);
    while (Clock::now() < until) ASSERT_TRUE(empty(here.side.send_cq));
    signal_process(neighbor.pid, SIGCONT);
    success(here.side.send_cq);
    here.meet();
}

// At any moment, mostly in the middle of a copy into our region. Taking that away waits for the stopped one
// and says so; meanwhile we go on with everybody else. It ends when the other goes on, or is killed. Then
// nobody writes there.
TEST(Neighbor, AnInitiatorIsStoppedWhileItWrites) {
    constexpr int kRounds = 6, kMost = 60;
    constexpr std::chrono::milliseconds kLatest{5};
    Chance chance;
    int waited = 0;
    for (int round = 0; round < kRounds || (by_memory() && waited < 2 && round < kMost); round++) {
        const bool killed = round % 2;
        Pair others;
        Memory ours(others.a.pd, kSize), theirs(others.b.pd, kSize);
        Neighbor neighbor([](Here& there) { write_until_it_fails(there, IBV_WC_REM_ACCESS_ERR); });
        Here here(neighbor.in, neighbor.out);
        EXPECT_TRUE(wait_until([&] { return here.memory.load_word(kSize / 8 - 1) > 5; }));
        const auto at = Clock::now() + chance.up_to(kLatest);
        while (Clock::now() < at) continue;
        signal_process(neighbor.pid, SIGSTOP);
        int status;
        waitpid(neighbor.pid, &status, WUNTRACED);
        ASSERT_TRUE(WIFSTOPPED(status));

        new_log();
        std::atomic<bool> returned{false};
        std::thread taker([&] {
            EXPECT_EQ(ibv_dereg_mr(here.memory.mr), 0);
            here.memory.mr = nullptr;
            here.memory.set_all(0xaa);
            returned = true;
        });
        const std::string told =
            "process " + std::to_string(neighbor.pid) + " is in the middle of a transfer";
        std::string log;
        EXPECT_TRUE(wait_until([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            log += new_log();
            return returned || log.find(told) != std::string::npos;
        })) << log;
        const bool held = !returned;
        waited += held;
        ours.fill(9);
        ibv_sge sge = ours.sge(0, kSize);
        EXPECT_EQ(Request(1, IBV_WR_RDMA_WRITE, &sge, 1).to(theirs).post(others.a.qp), 0);
        success(others.a.send_cq);
        EXPECT_TRUE(theirs.holds(9, kSize));
        ibv_mr* another = ibv_reg_mr(others.a.pd, theirs.data(), kSize, kAllAccess);
        ASSERT_NE(another, nullptr);
        EXPECT_EQ(ibv_dereg_mr(another), 0);
        { const Pair more; }

        signal_process(neighbor.pid, killed ? SIGKILL : SIGCONT);
        taker.join();
        neighbor.end(killed ? SIGKILL : 0);
        for (std::size_t i = 0; i < kSize; i++)
            ASSERT_EQ(here.memory.data()[i], 0xaa) << i << ", held " << held;
    }
    if (by_memory()) {
        EXPECT_GT(waited, 1) << "it was never stopped in the middle of a copy";
    } else {
        EXPECT_EQ(waited, 0);
    }
}

// Who fetches a payload late finds the sender's memory as the program has left it since: that is no message.
TEST(Neighbor, AReceiverIsStoppedBeforeItFetches) {
    if (!by_memory()) GTEST_SKIP() << "packets bring their payloads along";
    Neighbor neighbor([](Here& there) {
        fetches_until_stopped = 3;
        there.memory.fill(1);
        EXPECT_EQ(there.side.post_receive(1, there.memory.sge(0, kSize)), 0);
        there.meet();
        const auto until = Clock::now() + std::chrono::seconds(20);
        for (bool ended = false; Clock::now() < until && !ended;) {
            ibv_wc wc{};
            if (ibv_poll_cq(there.side.receive_cq, 1, &wc) > 0) {
                if (wc.status != IBV_WC_SUCCESS) break;
                EXPECT_TRUE(there.memory.holds(7, kSize));
                EXPECT_EQ(there.side.post_receive(1, there.memory.sge(0, kSize)), 0);
            } else if (fetches_until_stopped == 0) {  // and goes on
                std::this_thread::sleep_for(std::chrono::milliseconds(100));
                ended = ibv_poll_cq(there.side.receive_cq, 1, &wc) == 0;
                EXPECT_TRUE(ended);
            }
        }
    });
    Here here(neighbor.in, neighbor.out);
    here.memory.fill(7);
    here.meet();
    int status = 0;
    const auto until = Clock::now() + std::chrono::seconds(20);
    while (Clock::now() < until && !WIFSTOPPED(status)) {
        ASSERT_EQ(here.post(IBV_WR_SEND, kSize), 0);
        ibv_wc wc{};
        while (ibv_poll_cq(here.side.send_cq, 1, &wc) == 0 && !WIFSTOPPED(status))
            waitpid(neighbor.pid, &status, WUNTRACED | WNOHANG);
    }
    ASSERT_TRUE(WIFSTOPPED(status)) << "it fetched nothing";
    EXPECT_EQ(here.side.to_state(IBV_QPS_ERR), 0);
    here.memory.set_all(0xaa);
    signal_process(neighbor.pid, SIGCONT);
    neighbor.end(0);
}

// Its connection can be ended, whatever it stands in the middle of.
TEST(Neighbor, AConnectionToAStoppedInitiatorEnds) {
    Chance chance;
    bool held = false;
    for (int round = 0; round == 0 || (by_memory() && !held && round < 30); round++) {
        Neighbor neighbor([](Here& there) { write_until_it_fails(there, IBV_WC_REM_ACCESS_ERR); });
        Here here(neighbor.in, neighbor.out);
        EXPECT_TRUE(wait_until([&] { return here.memory.load_word(kSize / 8 - 1) > 5; }));
        const auto at = Clock::now() + chance.up_to(std::chrono::milliseconds(5));
        while (Clock::now() < at) continue;
        signal_process(neighbor.pid, SIGSTOP);
        int status;
        waitpid(neighbor.pid, &status, WUNTRACED);
        new_log();
        EXPECT_EQ(here.side.to_state(IBV_QPS_ERR), 0);
        held = new_log().find("is in the middle of a transfer") != std::string::npos;
        signal_process(neighbor.pid, SIGKILL);
        neighbor.end(SIGKILL);
    }
    EXPECT_EQ(held, by_memory());
}

}  // namespace
}  // namespace verbena::verbs_test
