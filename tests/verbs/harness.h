// What the tests of the verbs calls share: objects that clean up behind themselves, a connected pair of queue
// pairs with each side in a context of its own, waiting without hanging, and the check of a refusal with its
// reason.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace verbena::verbs_test {

using Clock = std::chrono::steady_clock;

inline constexpr int kPatienceMs = 30'000;  // for what must come
inline constexpr int kAllAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
inline constexpr std::uint32_t kNoKey = 0x00ffff42;

std::string& log_path();
// What was logged since the call before.
std::string new_log();

// A call that fails: with that error, and with a sentence in the log that names the call. The calls of verbs
// report in three ways.
testing::AssertionResult refused(int error, const std::function<int()>& call);  // returns the error
testing::AssertionResult refused_null(int error, const std::function<const void*()>& call);  // NULL and errno
testing::AssertionResult refused_minus_one(int error, const std::function<int()>& call);     // -1 and errno

ibv_context* open_device(const char* name);  // nullptr: there is none
ibv_context* open_loopback();

bool wait_until(const std::function<bool()>& done, int milliseconds = kPatienceMs);
bool readable(int fd, int milliseconds = 0);
// The next asynchronous event, which is waited for, acknowledged.
bool next_event(ibv_context* context, ibv_async_event& event);

struct Options {
    int cqe = 512;
    ibv_qp_cap cap{128, 128, 4, 4, 256};
    bool signal_all = false;
    bool with_channel = false;
    ibv_mtu mtu = IBV_MTU_4096;
    std::uint8_t rnr_retry = 7;
    std::uint8_t timeout = 14;  // 67 ms
    std::uint8_t retries = 7;
    std::uint8_t depth = 16;         // READs and atomics at once
    std::uint8_t min_rnr_timer = 1;  // 10 us
    bool connect = true;
    ibv_qp_type type = IBV_QPT_RC;      // or UC
    std::uint32_t shared_receives = 0;  // not 0: from a shared receive queue with as many places
};

// Memory of the test, registered. The other side may touch it at any time, which no thread sanitizer can
// understand: races with this class's own calls are none of its business (main.cpp).
class Memory {
   public:
    Memory(ibv_pd* pd, std::size_t size, int access = kAllAccess);
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    std::uint8_t* data() { return static_cast<std::uint8_t*>(static_cast<void*>(words_.data())); }
    std::uint64_t address(std::size_t offset = 0) {
        return reinterpret_cast<std::uintptr_t>(words_.data()) + offset;
    }
    ibv_sge sge(std::size_t offset, std::size_t length) {
        return {address(offset), static_cast<std::uint32_t>(length), mr->lkey};
    }
    void fill(std::uint8_t seed) { fill(seed, 0, size); }
    void fill(std::uint8_t seed, std::size_t offset, std::size_t length);
    bool holds(std::uint8_t seed, std::size_t length, std::size_t offset = 0);
    void set_all(std::uint8_t byte);
    std::uint64_t word(std::size_t index) const { return words_[index]; }
    // While somebody may write it.
    std::uint64_t load_word(std::size_t index) { return std::atomic_ref(words_[index]).load(); }
    void set_word(std::size_t index, std::uint64_t value) { words_[index] = value; }

    const std::size_t size;
    ibv_mr* mr = nullptr;

   private:
    std::vector<std::uint64_t> words_;
};

// One side: a context with everything that a queue pair needs.
class Side {
   public:
    // `opened`: instead of the loopback device; closed with the rest.
    explicit Side(const Options& options = {}, ibv_context* opened = nullptr);
    ~Side();
    Side(const Side&) = delete;
    Side& operator=(const Side&) = delete;

    ibv_qp_init_attr setup() const;
    int to_init();
    int to_rtr(const ibv_gid& gid, std::uint32_t number);
    int to_rts();
    int to_state(ibv_qp_state state);  // with nothing else
    ibv_gid gid() const;
    ibv_qp_state state() const;

    int post_receive(std::uint64_t wr_id, ibv_sge* sges, int count);
    int post_receive(std::uint64_t wr_id, ibv_sge sge) { return post_receive(wr_id, &sge, 1); }

    const Options options;
    ibv_context* context;
    ibv_pd* pd;
    ibv_comp_channel* channel = nullptr;
    ibv_cq* send_cq;
    ibv_cq* receive_cq;
    ibv_srq* srq = nullptr;
    ibv_qp* qp;
};

// From RESET to RTS, with each other.
void connect(Side& a, Side& b);

struct Pair {
    explicit Pair(const Options& options = {});
    Side a, b;
};

inline constexpr std::uint32_t kQkey = 0x11111111;  // of the tests that need one only
// A UD queue pair in RESET, to RTS. An errno.
int start_datagrams(ibv_qp* qp, std::uint32_t qkey);
// To a queue pair at that address; nullptr with errno.
ibv_ah* address_handle(ibv_pd* pd, const ibv_gid& gid);

// A send request over `sges`, which must live until it is posted.
struct Request : ibv_send_wr {
    Request(std::uint64_t id, ibv_wr_opcode operation, ibv_sge* sges, int count,
            unsigned flags = IBV_SEND_SIGNALED);
    Request& to(Memory& memory, std::size_t offset = 0);
    int post(ibv_qp* qp);  // with its next ones
    ibv_send_wr* bad = nullptr;
};

// A SEND from `a` to `b`.
void exchange_message(Pair& pair);

// Runs `work` in a child, whose failures are this test's.
void in_child(const std::function<void()>& work);

// The next completion, which must come.
ibv_wc completion(ibv_cq* cq);
// And be a success.
ibv_wc success(ibv_cq* cq);
// Nothing is there, and nothing comes while the other side's progress has been waited for.
bool empty(ibv_cq* cq);

}  // namespace verbena::verbs_test
