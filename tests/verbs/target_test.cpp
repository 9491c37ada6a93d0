// A target that never calls: its threads sleep or compute for seconds, and its memory is read, written and
// changed by atomics all the same (the helper thread serves).
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "harness.h"

namespace verbena::verbs_test {
namespace {

constexpr auto kAway = std::chrono::seconds(3);
// On an idle machine the first answer is there within 10 ms; a loaded one may not run the target at all for a
// while.
constexpr auto kGenerous = std::chrono::milliseconds(2000);

struct Address {
    ibv_gid gid;
    std::uint32_t number, rkey;
    std::uint64_t memory;
};

template <class Record>
void put(int fd, const Record& record) {
    ASSERT_EQ(write(fd, &record, sizeof record), static_cast<ssize_t>(sizeof record));
}
template <class Record>
Record get(int fd) {
    Record record{};
    EXPECT_EQ(read(fd, &record, sizeof record), static_cast<ssize_t>(sizeof record));
    return record;
}

Options unconnected() {
    Options options;
    options.connect = false;
    return options;
}

Address address(Side& side, Memory& memory) {
    return {side.gid(), side.qp->qp_num, memory.mr->rkey, memory.address()};
}

bool connect(Side& side, const Address& peer) {
    return side.to_init() == 0 && side.to_rtr(peer.gid, peer.number) == 0 && side.to_rts() == 0;
}

// The target: connects, says so, is away, and ends. Never returns.
[[noreturn]] void be_target(int in, int out, bool computes) {
    {
        Side side(unconnected());
        Memory memory(side.pd, 64);
        put(out, address(side, memory));
        if (!connect(side, get<Address>(in))) _exit(2);
        put(out, 'c');
        const auto back = Clock::now() + kAway;
        volatile std::uint64_t sum = 0;
        if (computes)
            while (Clock::now() < back)
                for (unsigned i = 0; i < 100000; i++) sum = sum + i;
        else
            usleep(static_cast<useconds_t>(std::chrono::microseconds(kAway).count()));
    }
    _exit(testing::Test::HasFailure());
}

class Target : public testing::TestWithParam<bool> {};

TEST_P(Target, IsServedWhileAway) {
    int to[2], from[2];
    ASSERT_TRUE(pipe(to) == 0 && pipe(from) == 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) be_target(to[0], from[1], GetParam());
    close(to[0]);
    close(from[1]);

    {
        Side side(unconnected());
        Memory memory(side.pd, 64);
        const Address peer = get<Address>(from[0]);
        put(to[1], address(side, memory));
        ASSERT_TRUE(connect(side, peer));
        get<char>(from[0]);
        usleep(300'000);  // it is away, and its helper asleep

        const auto began = Clock::now();
        std::chrono::microseconds first{0};
        ibv_sge sge = memory.sge(0, 8);
        std::uint64_t rounds = 0, value = 0;
        for (; Clock::now() - began < kAway / 2; rounds++) {
            auto run = [&](ibv_wr_opcode opcode, std::uint64_t operand) {
                Request request(rounds, opcode, &sge, 1);
                if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
                    request.wr.atomic.remote_addr = peer.memory;
                    request.wr.atomic.rkey = peer.rkey;
                    request.wr.atomic.compare_add = operand;
                } else {
                    request.wr.rdma.remote_addr = peer.memory;
                    request.wr.rdma.rkey = peer.rkey;
                }
                const auto posted = Clock::now();
                ASSERT_EQ(request.post(side.qp), 0);
                ASSERT_EQ(success(side.send_cq).wr_id, rounds);
                if (first.count() == 0)
                    first = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - posted);
            };
            value = rounds * 1000;
            std::memcpy(memory.data(), &value, 8);
            run(IBV_WR_RDMA_WRITE, 0);
            run(IBV_WR_ATOMIC_FETCH_AND_ADD, 7);
            run(IBV_WR_RDMA_READ, 0);
            if (HasFatalFailure()) break;
            std::memcpy(&value, memory.data(), 8);
            ASSERT_EQ(value, rounds * 1000 + 7);
        }
        std::printf("first answer after %lld us, then %llu rounds of three\n",
                    static_cast<long long>(first.count()), static_cast<unsigned long long>(rounds));
        EXPECT_LT(first, kGenerous);
        EXPECT_GT(rounds, 0u);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    close(to[1]);
    close(from[0]);
}

INSTANTIATE_TEST_SUITE_P(Away, Target, testing::Values(false, true),
                         [](const auto& instance) { return instance.param ? "Computing" : "Sleeping"; });

}  // namespace
}  // namespace verbena::verbs_test
