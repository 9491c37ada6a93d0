// Two processes of one host, and what may happen to one of them while the other works on its memory: it is
// stopped, killed, forbids others its memory, takes a region away. Over packets some of it cannot hold; those
// tests are for the local link (VERBENA_LINK=local).
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>
#include <thread>

#include "base/process_testing.h"
#include "harness.h"

namespace verbena::verbs_test {
namespace {

constexpr std::size_t kSize = 1 << 20;

bool by_memory() {
    const char* link = std::getenv("VERBENA_LINK");
    return link && std::string_view(link) == "local";
}

struct Address {
    ibv_gid gid;
    std::uint32_t number, rkey;
    std::uint64_t memory;
};

// One of the two processes, with what it needs to talk to the other.
class Here {
   public:
    Here(int in, int out, std::uint8_t rnr_retry = 7)
        : side(options(rnr_retry)), memory(side.pd, kSize), in_(in), out_(out) {
        const Address mine{side.gid(), side.qp->qp_num, memory.mr->rkey, memory.address()};
        say(mine);
        hear(peer);
        EXPECT_EQ(side.to_init(), 0);
        EXPECT_EQ(side.to_rtr(peer.gid, peer.number), 0);
        EXPECT_EQ(side.to_rts(), 0);
        meet();
    }
    // Both have come this far.
    void meet() {
        say('m');
        char other = 0;
        hear(other);
    }
    template <class Record>
    void say(const Record& record) {
        if (write(out_, &record, sizeof record) != static_cast<ssize_t>(sizeof record)) _exit(3);
    }
    template <class Record>
    void hear(Record& record) {
        if (read(in_, &record, sizeof record) != static_cast<ssize_t>(sizeof record)) _exit(4);
    }
    int post(ibv_wr_opcode opcode, std::size_t length, std::size_t offset = 0, std::uint64_t id = 1) {
        return post(opcode, length, offset, offset, id);
    }
    int post(ibv_wr_opcode opcode, std::size_t length, std::size_t from, std::size_t offset,
             std::uint64_t id) {
        ibv_sge sge = memory.sge(from, length);
        Request request(id, opcode, &sge, 1);
        if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
            request.wr.atomic.remote_addr = peer.memory + offset;
            request.wr.atomic.rkey = peer.rkey;
            request.wr.atomic.compare_add = 1;
        } else {
            request.wr.rdma.remote_addr = peer.memory + offset;
            request.wr.rdma.rkey = peer.rkey;
        }
        return request.post(side.qp);
    }

    Side side;
    Memory memory;
    Address peer{};

   private:
    static Options options(std::uint8_t rnr_retry) {
        Options o;
        o.connect = false;
        o.rnr_retry = rnr_retry;
        return o;
    }
    int in_, out_;
};

// Runs `there` in a child process, connected to the `here` that the test makes of here_in and here_out.
class Neighbor {
   public:
    template <class There>
    explicit Neighbor(There there) {
        int to[2], from[2];
        if (pipe(to) != 0 || pipe(from) != 0) std::abort();
        std::fflush(stdout);
        pid = fork();
        if (pid == 0) {
            close(to[1]);
            close(from[0]);
            {
                Here here(to[0], from[1]);
                there(here);
            }
            _exit(testing::Test::HasFailure());
        }
        close(to[0]);
        close(from[1]);
        in = from[0];
        out = to[1];
    }
    ~Neighbor() {
        close(out);
        close(in);
        if (pid > 0) end(0);
    }
    // Waits for its end, which must be with that status (or by SIGKILL: 9).
    void end(int expected) {
        int status = -1;
        waitpid(pid, &status, 0);
        EXPECT_EQ(status, expected);
        pid = 0;
    }
    void kill_it() {
        end_process(pid);
        end(SIGKILL);
    }

    pid_t pid, in, out;
};

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

// IBA 9.5: a WRITE behind a SEND that finds no receive is not seen before it.
TEST(Neighbor, AWriteDoesNotOvertakeASend) {
    Neighbor neighbor([](Here& there) {
        there.meet();
        there.meet();
        EXPECT_EQ(there.memory.word(64), 0u);
        EXPECT_EQ(there.side.post_receive(9, there.memory.sge(8, 8)), 0);
        success(there.side.receive_cq);
        EXPECT_TRUE(wait_until([&] { return there.memory.load_word(512 / 8) == 5; }));
        there.meet();
    });
    Here here(neighbor.in, neighbor.out);
    here.meet();
    here.memory.set_word(64, 5);
    ASSERT_EQ(here.post(IBV_WR_SEND, 8), 0);
    ASSERT_EQ(here.post(IBV_WR_RDMA_WRITE, 8, 512, 2), 0);
    const auto until = Clock::now() + std::chrono::milliseconds(50);
    while (Clock::now() < until) EXPECT_TRUE(empty(here.side.send_cq));
    here.meet();
    EXPECT_EQ(success(here.side.send_cq).wr_id, 1u);
    EXPECT_EQ(success(here.side.send_cq).wr_id, 2u);
    here.meet();
}

// Whoever polls the last word of a WRITE sees the bytes before it, and no word torn.
TEST(Neighbor, TheLastWordComesLastAndWhole) {
    constexpr std::size_t kWords = 128;
    constexpr std::uint64_t kRounds = 3000;
    Neighbor neighbor([](Here& there) {
        there.meet();
        unsigned torn = 0, stale = 0;
        for (std::uint64_t last = 0; last != (kRounds << 32 | kRounds);) {
            const std::uint64_t seen = there.memory.load_word(kWords - 1);
            if (seen == last) continue;
            if ((seen & 0xffffffff) != seen >> 32) torn++;
            // What is read after it is of this round or a later one.
            if (there.memory.load_word(0) < seen) stale++;
            last = seen;
        }
        EXPECT_EQ(torn, 0u);
        EXPECT_EQ(stale, 0u);
        there.meet();
    });
    Here here(neighbor.in, neighbor.out);
    here.meet();
    for (std::uint64_t round = 1; round <= kRounds; round++) {
        for (std::size_t i = 0; i < kWords; i++) here.memory.set_word(i, round << 32 | round);
        ASSERT_EQ(here.post(IBV_WR_RDMA_WRITE, kWords * 8), 0);
        success(here.side.send_cq);
    }
    here.meet();
}

// However they travel: large ones are executed while few are under way, and else leave as packets. All go to
// one place; the first and the last word of each are its number.
TEST(Neighbor, LargeWritesAreSeenInTheirOrder) {
    constexpr std::size_t kLength = 64 << 10;
    constexpr std::uint64_t kMost = 12, kWrites = 6000;
    Neighbor neighbor([](Here& there) {
        there.meet();
        unsigned torn = 0, stale = 0, late = 0;
        const auto until = Clock::now() + std::chrono::seconds(60);
        for (std::uint64_t last = 0; last >> 32 != kWrites;) {
            const std::uint64_t seen = there.memory.load_word(kLength / 8 - 1);
            if (seen == last) {
                ASSERT_TRUE(empty(there.side.send_cq));  // so that packets are taken in
                ASSERT_LT(Clock::now(), until);
                continue;
            }
            if ((seen & 0xffffffff) != seen >> 32) torn++;
            if (seen < last) late++;
            if (there.memory.load_word(0) < seen) stale++;
            last = seen;
        }
        EXPECT_EQ(torn, 0u);
        EXPECT_EQ(stale, 0u);
        EXPECT_EQ(late, 0u);
        there.meet();
    });
    Here here(neighbor.in, neighbor.out);
    here.meet();
    for (std::uint64_t number = 1, most = 1; number <= kWrites; most = most % kMost + 1) {
        std::uint64_t under_way = 0;
        for (; under_way < most && number <= kWrites; under_way++, number++) {
            const std::size_t from = under_way * kLength;
            for (const std::size_t at : {from, from + kLength - 8})
                here.memory.set_word(at / 8, number << 32 | number);
            ASSERT_EQ(here.post(IBV_WR_RDMA_WRITE, kLength, from, 0, number), 0);
        }
        for (; under_way > 0; under_way--) success(here.side.send_cq);
    }
    here.meet();
}

// Of lengths that the sender writes into receives by itself, and others in between.
TEST(Neighbor, LargeSendsArriveWhole) {
    constexpr std::size_t kSlots = 4, kSlot = std::size_t{3} << 20, kMessages = 120;
    const auto length = [](std::size_t message) {
        constexpr std::size_t kLengths[] = {512 << 10, 600008, 1 << 20, 1 << 20, 8, kSlot, 1 << 20, 100008};
        return kLengths[message / 5 % std::size(kLengths)];
    };
    const auto word = [](std::size_t message, std::size_t at) { return message << 32 | at; };
    Neighbor neighbor([&](Here& there) {
        Memory into(there.side.pd, kSlots * kSlot);
        const auto post = [&](std::size_t slot) {
            EXPECT_EQ(there.side.post_receive(slot, into.sge(slot * kSlot, kSlot)), 0);
        };
        for (std::size_t slot = 0; slot < kSlots; slot++) post(slot);
        there.meet();
        for (std::size_t message = 0; message < kMessages; message++) {
            const std::size_t slot = message % kSlots, first = slot * kSlot / 8;
            const ibv_wc wc = success(there.side.receive_cq);
            EXPECT_EQ(wc.wr_id, slot);
            ASSERT_EQ(wc.byte_len, length(message));
            for (std::size_t at = 0; at < wc.byte_len / 8; at++)
                ASSERT_EQ(into.word(first + at), word(message, at)) << message << " at " << at;
            post(slot);
        }
        there.meet();
    });
    Here here(neighbor.in, neighbor.out);
    Memory from(here.side.pd, kSlots * kSlot);
    here.meet();
    for (std::size_t message = 0; message < kMessages; message++) {
        const std::size_t slot = message % kSlots, first = slot * kSlot / 8;
        if (message >= kSlots) success(here.side.send_cq);
        for (std::size_t at = 0; at < length(message) / 8; at++) from.set_word(first + at, word(message, at));
        ibv_sge sge = from.sge(slot * kSlot, length(message));
        ASSERT_EQ(Request(message, IBV_WR_SEND, &sge, 1).post(here.side.qp), 0);
    }
    for (std::size_t slot = 0; slot < kSlots; slot++) success(here.side.send_cq);
    here.meet();
    neighbor.end(0);
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
    Neighbor neighbor([](Here& there) {
        ibv_wc wc{};
        for (std::uint64_t i = 0; wc.status == IBV_WC_SUCCESS; i++) {
            there.memory.set_word(0, i);
            there.memory.set_word(kSize / 8 - 1, i);
            EXPECT_EQ(there.post(IBV_WR_RDMA_WRITE, kSize), 0);
            wc = completion(there.side.send_cq);
        }
        EXPECT_EQ(wc.status, IBV_WC_REM_ACCESS_ERR) << ibv_wc_status_str(wc.status);
    });
    Here here(neighbor.in, neighbor.out);
    EXPECT_TRUE(wait_until([&] { return here.memory.load_word(kSize / 8 - 1) > 20; }));
    EXPECT_EQ(ibv_dereg_mr(here.memory.mr), 0);
    here.memory.mr = nullptr;
    here.memory.set_all(0xaa);
    neighbor.end(0);
    for (std::size_t i = 0; i < kSize; i++) ASSERT_EQ(here.memory.data()[i], 0xaa) << i;
}

TEST(Neighbor, NothingIsWrittenAfterItsQueuePairIsDestroyed) {
    Neighbor neighbor([](Here& there) {
        ibv_wc wc{};
        while (wc.status == IBV_WC_SUCCESS) {
            there.memory.set_word(kSize / 8 - 1, there.memory.word(kSize / 8 - 1) + 1);
            EXPECT_EQ(there.post(IBV_WR_RDMA_WRITE, kSize), 0);
            wc = completion(there.side.send_cq);
        }
        EXPECT_EQ(wc.status, IBV_WC_RETRY_EXC_ERR) << ibv_wc_status_str(wc.status);
    });
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
        EXPECT_EQ(ibv_dereg_mr(here.memory.mr), 0);
        here.memory.mr = nullptr;
        EXPECT_EQ(here.side.state(), IBV_QPS_RTS);
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
    const auto until = Clock::now() + std::chrono::seconds(3);
    while (Clock::now() < until) ASSERT_TRUE(empty(here.side.send_cq));
    signal_process(neighbor.pid, SIGCONT);
    success(here.side.send_cq);
    here.meet();
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
