// A target that never calls: its threads sleep, or compute on every processor, for seconds, and its memory is
// read, written and changed by atomics all the same (the helper thread serves).
//
// The first answer after a silence comes within 10 ms. So that a loaded machine, which runs nobody in time,
// fails nothing, that is asked of the quickest quarter of many, and a thread of the target that does no more
// than answer a byte through a pipe says what this machine's processors take for that.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "harness.h"

namespace verbena::verbs_test {
namespace {

constexpr auto kSleeps = std::chrono::seconds(4);
constexpr auto kComputes = std::chrono::seconds(10);
constexpr auto kSilence = std::chrono::milliseconds(100);
constexpr auto kPollGap = std::chrono::microseconds(50);
constexpr unsigned kFirstAnswers = 15;
constexpr auto kPromised = std::chrono::milliseconds(10);

using Microseconds = std::chrono::microseconds;

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

Address address(Side& side, Memory& memory) {
    return {side.gid(), side.qp->qp_num, memory.mr->rkey, memory.address()};
}

bool connect(Side& side, const Address& peer) {
    return side.to_init() == 0 && side.to_rtr(peer.gid, peer.number) == 0 && side.to_rts() == 0;
}

// The target: connects, says so, is away, and ends. Never returns. `yardstick`: the byte comes and goes.
[[noreturn]] void be_target(int in, int out, int yardstick_in, int yardstick_out, bool computes) {
    {
        Side side({.connect = false});
        Memory memory(side.pd, 64);
        put(out, address(side, memory));
        if (!connect(side, get<Address>(in))) _exit(2);
        std::thread([=] {
            for (char byte; read(yardstick_in, &byte, 1) == 1;)
                if (write(yardstick_out, &byte, 1) != 1) return;
        }).detach();
        put(out, 'c');
        const auto back = Clock::now() + (computes ? kComputes : kSleeps);
        std::vector<std::thread> threads;
        for (unsigned n = computes ? std::max(std::thread::hardware_concurrency(), 1u) : 0; n > 0; n--)
            threads.emplace_back([back] {
                volatile std::uint64_t sum = 0;
                while (Clock::now() < back)
                    for (unsigned i = 0; i < 100000; i++) sum = sum + i;
            });
        std::this_thread::sleep_until(back);
        for (std::thread& thread : threads) thread.join();
    }
    _exit(testing::Test::HasFailure());
}

Microseconds since(Clock::time_point begin) {
    return std::chrono::duration_cast<Microseconds>(Clock::now() - begin);
}

// What a quarter of them did not exceed: on a loaded machine the others tell of the load.
Microseconds lower_quarter(std::vector<Microseconds> times) {
    const auto place = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 4);
    std::nth_element(times.begin(), place, times.end());
    return *place;
}

class Target : public testing::TestWithParam<bool> {};

TEST_P(Target, IsServedWhileAway) {
    int to[2], from[2], yardstick_to[2], yardstick_from[2];
    for (int* ends : {to, from, yardstick_to, yardstick_from}) ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) be_target(to[0], from[1], yardstick_to[0], yardstick_from[1], GetParam());
    for (int fd : {to[0], from[1], yardstick_to[0], yardstick_from[1]}) close(fd);

    {
        Side side({.connect = false});
        Memory memory(side.pd, 64);
        const Address peer = get<Address>(from[0]);
        put(to[1], address(side, memory));
        ASSERT_TRUE(connect(side, peer));
        get<char>(from[0]);

        ibv_sge sge = memory.sge(0, 8);
        std::uint64_t posted = 0;
        auto run = [&](ibv_wr_opcode opcode, std::uint64_t operand) {
            Request request(++posted, opcode, &sge, 1);
            if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
                request.wr.atomic.remote_addr = peer.memory;
                request.wr.atomic.rkey = peer.rkey;
                request.wr.atomic.compare_add = operand;
            } else {
                request.wr.rdma.remote_addr = peer.memory;
                request.wr.rdma.rkey = peer.rkey;
            }
            ASSERT_EQ(request.post(side.qp), 0);
            // Asleep in between: whoever polls on a busy machine waits for its own turn.
            ibv_wc completion{};
            int count = 0;
            while ((count = ibv_poll_cq(side.send_cq, 1, &completion)) == 0)
                std::this_thread::sleep_for(kPollGap);
            ASSERT_EQ(count, 1);
            ASSERT_EQ(completion.status, IBV_WC_SUCCESS) << ibv_wc_status_str(completion.status);
            ASSERT_EQ(completion.wr_id, posted);
        };

        std::vector<Microseconds> first, yardstick;
        for (unsigned n = 0; n < kFirstAnswers; n++) {
            const ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE,
                                             IBV_WR_ATOMIC_FETCH_AND_ADD};
            std::this_thread::sleep_for(kSilence);  // the helper is asleep again
            auto began = Clock::now();
            run(opcodes[n % 3], 0);
            if (HasFatalFailure()) break;
            first.push_back(since(began));
            std::this_thread::sleep_for(kSilence);
            began = Clock::now();
            put(yardstick_to[1], 'y');
            get<char>(yardstick_from[0]);
            yardstick.push_back(since(began));
        }
        ASSERT_EQ(yardstick.size(), kFirstAnswers);

        unsigned rounds = 0;
        for (const auto began = Clock::now(); since(began) < kSilence || rounds == 0; rounds++) {
            const std::uint64_t before = rounds * 1000;
            std::memcpy(memory.data(), &before, 8);
            run(IBV_WR_RDMA_WRITE, 0);
            run(IBV_WR_ATOMIC_FETCH_AND_ADD, 7);
            run(IBV_WR_RDMA_READ, 0);
            if (HasFatalFailure()) break;
            ASSERT_EQ(memory.word(0), before + 7);
        }
        std::printf(
            "first answer after %lld us, a byte's through pipes after %lld us, then %u rounds of three\n",
            static_cast<long long>(lower_quarter(first).count()),
            static_cast<long long>(lower_quarter(yardstick).count()), rounds);
        EXPECT_LT(lower_quarter(first), kPromised + 3 * lower_quarter(yardstick));
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    for (int fd : {to[1], from[0], yardstick_to[1], yardstick_from[0]}) close(fd);
}

INSTANTIATE_TEST_SUITE_P(Away, Target, testing::Values(false, true),
                         [](const auto& instance) { return instance.param ? "Computing" : "Sleeping"; });

}  // namespace
}  // namespace verbena::verbs_test
