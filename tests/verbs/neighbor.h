// Two processes of one host, connected with each other: the test's own and a child of it. Over packets, or by
// the memory that they share (VERBENA_LINK=local).
#pragma once

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <random>
#include <string_view>
#include <utility>

#include "base/process_testing.h"
#include "harness.h"

namespace verbena::verbs_test {

inline constexpr std::size_t kSize = 1 << 20;

inline bool by_memory() {
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
    explicit Here(int in, int out, const Options& options = {})
        : side(unconnected(options)), memory(side.pd, kSize), in_(in), out_(out) {
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
        aim(request, offset);
        return request.post(side.qp);
    }
    // At the peer's memory.
    void aim(Request& request, std::size_t offset) const {
        if (request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
            request.wr.atomic.remote_addr = peer.memory + offset;
            request.wr.atomic.rkey = peer.rkey;
            request.wr.atomic.compare_add = 1;
        } else {
            request.wr.rdma.remote_addr = peer.memory + offset;
            request.wr.rdma.rkey = peer.rkey;
        }
    }

    Side side;
    Memory memory;
    Address peer{};

   private:
    static Options unconnected(Options options) {
        options.connect = false;
        return options;
    }
    int in_, out_;
};

// WRITEs all that it has, again and again, which begins and ends with a number that grows, until that fails,
// as expected.
inline void write_until_it_fails(Here& there, ibv_wc_status expected) {
    ibv_wc wc{};
    for (std::uint64_t number = 1; wc.status == IBV_WC_SUCCESS; number++) {
        there.memory.set_word(0, number);
        there.memory.set_word(kSize / 8 - 1, number);
        EXPECT_EQ(there.post(IBV_WR_RDMA_WRITE, kSize), 0);
        wc = completion(there.side.send_cq);
    }
    EXPECT_EQ(wc.status, expected) << ibv_wc_status_str(wc.status);
}

// Runs `there` in a child process, connected to the `here` that the test makes of here_in and here_out.
class Neighbor {
   public:
    template <class There>
    explicit Neighbor(There there, const Options& options = {}) {
        int to[2], from[2];
        if (pipe(to) != 0 || pipe(from) != 0) std::abort();
        std::fflush(stdout);
        pid = fork();
        if (pid < 0) std::abort();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(to[1]);
            close(from[0]);
            {
                Here here(to[0], from[1], options);
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
        if (pid > 0 && testing::Test::HasFailure()) {  // it may wait for us, or be stopped
            end_process(pid);
            waitpid(std::exchange(pid, 0), nullptr, 0);
        }
        if (pid > 0) end(0);
    }
    Neighbor(const Neighbor&) = delete;
    Neighbor& operator=(const Neighbor&) = delete;
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

// What both processes see besides: of atomics, made before the other process is.
template <class State>
class Shared {
   public:
    Shared() {
        void* place = mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (place == MAP_FAILED) std::abort();
        state_ = new (place) State{};
    }
    ~Shared() { munmap(state_, sizeof(State)); }
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;
    State* operator->() const { return state_; }
    State& operator*() const { return *state_; }

   private:
    State* state_;
};

// For what happens at any moment. VERBENA_TEST_SEED repeats it, as far as the processes' own pace allows.
class Chance {
   public:
    Chance() : seed_(chosen()), engine_(seed_) {
        std::printf("seed %u (VERBENA_TEST_SEED)\n", seed_);
        std::fflush(stdout);
    }
    std::chrono::microseconds up_to(std::chrono::microseconds most) {
        return std::chrono::microseconds(
            std::uniform_int_distribution<std::int64_t>(0, most.count())(engine_));
    }

   private:
    static unsigned chosen() {
        const char* wanted = std::getenv("VERBENA_TEST_SEED");
        return wanted ? static_cast<unsigned>(std::strtoul(wanted, nullptr, 10)) : std::random_device{}();
    }
    unsigned seed_;
    std::mt19937 engine_;
};

}  // namespace verbena::verbs_test
