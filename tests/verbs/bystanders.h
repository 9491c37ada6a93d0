// Two more processes that exchange data all the time, whatever happens to others on the same devices: every
// byte is checked, and no request may fail.
#pragma once

#include <array>

#include "neighbor.h"

namespace verbena::verbs_test {

class Bystanders {
   public:
    Bystanders() {
        std::fflush(stdout);
        pid_ = fork();
        if (pid_ < 0) std::abort();
        if (pid_ == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            exchange(shared_);
            _exit(testing::Test::HasFailure());
        }
    }
    // Neither of them has failed.
    ~Bystanders() {
        shared_->ends = true;
        int status = -1;
        waitpid(pid_, &status, 0);
        EXPECT_EQ(status, 0) << "the bystanders were disturbed";
    }
    Bystanders(const Bystanders&) = delete;
    Bystanders& operator=(const Bystanders&) = delete;

    // Some rounds have begun and ended since the call.
    void go_on() {
        const std::uint64_t before = shared_->rounds;
        EXPECT_TRUE(wait_until([&] { return shared_->rounds > before + 1; })) << "the bystanders stand still";
    }

   private:
    struct State {
        std::atomic<std::uint64_t> rounds;
        std::atomic<bool> ends;
    };
    // A round: a WRITE and behind it a SEND, which the other checks; the same SEND back; a READ.
    static constexpr std::size_t kReceived = 0, kSent = kSize / 4, kWritten = kSize / 2,
                                 kRead = kSize * 3 / 4;
    static constexpr std::array<std::size_t, 4> kLengths = {8, 1000, 64 << 10, 200'000};

    static std::uint8_t pattern_of(std::uint64_t round) { return static_cast<std::uint8_t>(round * 37 + 1); }

    static void exchange(Shared<State>& shared) {
        Options patient;  // on a machine that is busy with others
        patient.timeout = 18;
        Neighbor other(answer, patient);
        Here here(other.in, other.out, patient);
        while (!shared->ends && !testing::Test::HasFailure()) {
            const std::uint64_t round = shared->rounds + 1;
            const std::size_t length = kLengths[round % kLengths.size()];
            const std::uint8_t pattern = pattern_of(round);
            here.memory.fill(pattern, kSent, length);
            ASSERT_EQ(here.side.post_receive(round, here.memory.sge(kReceived, kSize / 4)), 0);
            ASSERT_EQ(here.post(IBV_WR_RDMA_WRITE, length, kSent, kWritten, 1), 0);
            ASSERT_EQ(here.post(IBV_WR_SEND, length, kSent, 0, 2), 0);
            EXPECT_EQ(success(here.side.send_cq).wr_id, 1u);
            EXPECT_EQ(success(here.side.send_cq).wr_id, 2u);
            EXPECT_EQ(success(here.side.receive_cq).byte_len, length);
            EXPECT_TRUE(here.memory.holds(pattern, length, kReceived)) << "round " << round;
            ASSERT_EQ(here.post(IBV_WR_RDMA_READ, length, kRead, kWritten, 3), 0);
            EXPECT_EQ(success(here.side.send_cq).wr_id, 3u);
            EXPECT_TRUE(here.memory.holds(pattern, length, kRead)) << "round " << round;
            here.memory.fill(0, kReceived, length);
            here.memory.fill(0, kRead, length);
            shared->rounds = round;
        }
        ASSERT_EQ(here.post(IBV_WR_SEND, 1), 0);  // that was all
        success(here.side.send_cq);
        here.meet();
    }

    static void answer(Here& there) {
        for (std::uint64_t round = 1;; round++) {
            EXPECT_EQ(there.side.post_receive(round, there.memory.sge(kReceived, kSize / 4)), 0);
            const ibv_wc wc = success(there.side.receive_cq);
            if (wc.byte_len == 1 || testing::Test::HasFailure()) break;
            const std::uint8_t pattern = pattern_of(round);
            EXPECT_EQ(wc.byte_len, kLengths[round % kLengths.size()]);
            EXPECT_TRUE(there.memory.holds(pattern, wc.byte_len, kReceived)) << "round " << round;
            EXPECT_TRUE(there.memory.holds(pattern, wc.byte_len, kWritten)) << "round " << round;
            EXPECT_EQ(there.post(IBV_WR_SEND, wc.byte_len, kReceived, 0, round), 0);
            success(there.side.send_cq);
        }
        there.meet();
    }

    Shared<State> shared_;
    pid_t pid_;
};

}  // namespace verbena::verbs_test
