// Two processes of one host, and what may happen to one of them while the other works on its memory: it is
// killed, forbids others its memory, takes a region away. At any moment: neighbor_killed_test.cpp.
#include "neighbor.h"

#include <thread>

namespace verbena::verbs_test {
namespace {

// The first word: a command to the child. It does not call verbs meanwhile.
void wait_for_word(Memory& memory, std::uint64_t word) {
    EXPECT_TRUE(wait_until([&] { return memory.load_word(0) == word; }));
}

TEST(Neighbor, EveryOperationArrives) {
    Neighbor neighbor([](Here& there) {
        there.memory.fill(3);
        there.meet();
        there.meet();
        EXPECT_TRUE(there.memory.holds(5, kSize));
        EXPECT_EQ(there.side.post_receive(9, there.memory.sge(0, kSize)), 0);
        there.meet();
        EXPECT_EQ(success(there.side.receive_cq).byte_len, 4097u);
        EXPECT_TRUE(there.memory.holds(7, 4097));
        there.meet();
    });
    Here here(neighbor.in, neighbor.out);
    here.meet();
    ASSERT_EQ(here.post(IBV_WR_RDMA_READ, kSize), 0);
    EXPECT_EQ(success(here.side.send_cq).byte_len, kSize);
    EXPECT_TRUE(here.memory.holds(3, kSize));
    here.memory.fill(5);
    ASSERT_EQ(here.post(IBV_WR_RDMA_WRITE, kSize), 0);
    success(here.side.send_cq);
    here.meet();
    here.meet();
    here.memory.fill(7);
    ASSERT_EQ(here.post(IBV_WR_SEND, 4097), 0);
    success(here.side.send_cq);
    here.meet();
}

TEST(Neighbor, AnswersAlthoughItForbidsItsMemory) {
    Neighbor neighbor([](Here& there) {
        prctl(PR_SET_DUMPABLE, 0);
        there.meet();
        wait_for_word(there.memory, 78);
        there.meet();
    });
    Here here(neighbor.in, neighbor.out);
    here.meet();
    here.memory.set_word(0, 77);
    ASSERT_EQ(here.post(IBV_WR_RDMA_WRITE, kSize), 0);
    success(here.side.send_cq);
    ASSERT_EQ(here.post(IBV_WR_ATOMIC_FETCH_AND_ADD, 8), 0);
    success(here.side.send_cq);
    EXPECT_EQ(here.memory.word(0), 77u);
    ASSERT_EQ(here.post(IBV_WR_RDMA_READ, 8), 0);
    success(here.side.send_cq);
    EXPECT_EQ(here.memory.word(0), 78u);
    here.meet();
}

TEST(Neighbor, NothingIsWrittenAfterReceivesWereFlushed) {
    constexpr std::uint64_t kReceives = 40, kBefore = 20;
    for (const bool destroyed : {false, true}) {
        Neighbor neighbor([](Here& there) {
            there.meet();
            ibv_wc wc{};
            for (unsigned out = 0; wc.status == IBV_WC_SUCCESS;) {
                for (; out < 8; out++) EXPECT_EQ(there.post(IBV_WR_SEND, kSize), 0);
                wc = completion(there.side.send_cq);
                out--;
            }
        });
        Here here(neighbor.in, neighbor.out);
        for (std::uint64_t i = 0; i < kReceives; i++)
            ASSERT_EQ(here.side.post_receive(i, here.memory.sge(0, kSize)), 0);
        here.meet();
        for (std::uint64_t i = 0; i < kBefore; i++) EXPECT_EQ(success(here.side.receive_cq).wr_id, i);
        if (destroyed) {
            EXPECT_EQ(ibv_destroy_qp(here.side.qp), 0);
            here.side.qp = nullptr;
        } else {
            EXPECT_EQ(here.side.to_state(IBV_QPS_ERR), 0);
            for (std::uint64_t i = kBefore; i < kReceives; i++) completion(here.side.receive_cq);
        }
        here.memory.set_all(0xaa);
        neighbor.end(0);
        for (std::size_t i = 0; i < kSize; i++) ASSERT_EQ(here.memory.data()[i], 0xaa) << i;
    }
}

// Once ibv_dereg_mr() has returned, nobody writes there.
TEST(Neighbor, NothingIsWrittenAfterDeregistration) {
    Neighbor neighbor([](Here& there) { write_until_it_fails(there, IBV_WC_REM_ACCESS_ERR); });
    Here here(neighbor.in, neighbor.out);
    EXPECT_TRUE(wait_until([&] { return here.memory.load_word(kSize / 8 - 1) > 20; }));
    EXPECT_EQ(ibv_dereg_mr(here.memory.mr), 0);
    here.memory.mr = nullptr;
    here.memory.set_all(0xaa);
    neighbor.end(0);
    for (std::size_t i = 0; i < kSize; i++) ASSERT_EQ(here.memory.data()[i], 0xaa) << i;
}

TEST(Neighbor, NothingIsWrittenAfterItsQueuePairIsDestroyed) {
    Neighbor neighbor([](Here& there) { write_until_it_fails(there, IBV_WC_RETRY_EXC_ERR); });
    Here here(neighbor.in, neighbor.out);
    EXPECT_TRUE(wait_until([&] { return here.memory.load_word(kSize / 8 - 1) > 20; }));
    EXPECT_EQ(ibv_destroy_qp(here.side.qp), 0);
    here.side.qp = nullptr;
    here.memory.set_all(0xaa);
    neighbor.end(0);
    for (std::size_t i = 0; i < kSize; i++) ASSERT_EQ(here.memory.data()[i], 0xaa) << i;
}

// Killed while it writes to us: nothing of ours waits for it, and others go on.
TEST(Neighbor, AnInitiatorIsKilled) {
    for (int round = 0; round < 5; round++) {
        Neighbor neighbor([](Here& there) {
            for (std::uint64_t i = 0;; i++) {
                there.memory.set_word(kSize / 8 - 1, i);
                EXPECT_EQ(there.post(IBV_WR_RDMA_WRITE, kSize), 0);
                success(there.side.send_cq);
            }
        });
        Here here(neighbor.in, neighbor.out);
        EXPECT_TRUE(wait_until([&] { return here.memory.load_word(kSize / 8 - 1) > 5; }));
        neighbor.kill_it();
        EXPECT_EQ(here.side.state(), IBV_QPS_RTS);
        EXPECT_EQ(ibv_dereg_mr(here.memory.mr), 0);
        here.memory.mr = nullptr;
        // A WRITE that was still on its way finds no region, which is this queue pair's error (IBA 9.9.3).
        if (here.side.state() == IBV_QPS_RTS) continue;
        ibv_async_event event{};
        EXPECT_TRUE(next_event(here.side.context, event));
        EXPECT_EQ(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
    }
}

// Killed while we read, write and send: an error completion, in time.
TEST(Neighbor, ATargetIsKilled) {
    for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND}) {
        Neighbor neighbor([](Here& there) {
            for (int i = 0; i < 100; i++)
                EXPECT_EQ(there.side.post_receive(9, there.memory.sge(0, kSize)), 0);
            there.meet();
            for (;;) pause();
        });
        Here here(neighbor.in, neighbor.out);
        here.meet();
        std::thread killer([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(3));
            end_process(neighbor.pid);
        });
        ibv_wc wc{};
        for (int i = 0; wc.status == IBV_WC_SUCCESS && (opcode != IBV_WR_SEND || i < 101); i++) {
            EXPECT_EQ(here.post(opcode, kSize), 0);
            wc = completion(here.side.send_cq);
        }
        EXPECT_EQ(wc.status, IBV_WC_RETRY_EXC_ERR) << ibv_wc_status_str(wc.status);
        killer.join();
        neighbor.end(SIGKILL);
    }
}

// Another program in the same process: it has nothing to do with us.
TEST(Neighbor, ATargetBecomesAnotherProgram) {
    Neighbor neighbor([](Here& there) {
        there.meet();
        execlp("sleep", "sleep", "20", nullptr);
        _exit(5);
    });
    Here here(neighbor.in, neighbor.out);
    here.meet();
    ibv_wc wc{};
    while (wc.status == IBV_WC_SUCCESS) {
        EXPECT_EQ(here.post(IBV_WR_RDMA_WRITE, 4096), 0);
        wc = completion(here.side.send_cq);
    }
    EXPECT_EQ(wc.status, IBV_WC_RETRY_EXC_ERR) << ibv_wc_status_str(wc.status);
    neighbor.kill_it();
}

}  // namespace
}  // namespace verbena::verbs_test
