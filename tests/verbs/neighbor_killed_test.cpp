// A process is killed (SIGKILL) at any moment of its work with another: while it copies, while it writes into
// a ring, while it takes a region away that is written to. The other gets an error completion, what it does
// then returns, and two bystanders on the same devices notice nothing.
#include <thread>

#include "bystanders.h"

namespace verbena::verbs_test {
namespace {

// Fewer where nobody gets a processor: there each loss takes seconds to be noticed.
constexpr int kRounds = 10, kAtLeast = 4;
constexpr std::chrono::seconds kEnough{15};
bool go_on(int round, Clock::time_point began) {
    return round < kRounds && (round < kAtLeast || Clock::now() - began < kEnough);
}
constexpr std::chrono::microseconds kLatest{5000};  // from when it is at work

Options victims() {
    Options options;
    options.cap.max_send_wr = options.cap.max_recv_wr = 64;
    return options;
}
// The survivor is to hear of it soon. If that is too soon for a busy machine, it loses the other before.
Options hasty() {
    Options options = victims();
    options.timeout = 12;
    options.retries = 0;
    return options;
}

bool is_loss(const ibv_wc& wc) { return wc.status == IBV_WC_RETRY_EXC_ERR; }

// Kills it so much later.
class Killer {
   public:
    Killer(Neighbor& victim, std::chrono::microseconds later)
        : victim_(victim), thread_([this, later, pid = victim.pid] {
              std::this_thread::sleep_for(later);
              end_process(pid);
              over_ = true;
          }) {}
    ~Killer() { wait(); }
    bool over() const { return over_; }
    void wait() {
        if (!thread_.joinable()) return;
        thread_.join();
        victim_.end(SIGKILL);
    }

   private:
    Neighbor& victim_;
    std::atomic<bool> over_{false};
    std::thread thread_;
};

// What was out or is posted now ends with an error; then everything can be taken down.
void expect_loss(Here& here, bool lost) {
    if (!lost) {
        ASSERT_EQ(here.post(IBV_WR_RDMA_WRITE, 4096, 0, 0, 99), 0);
        const ibv_wc wc = completion(here.side.send_cq);
        EXPECT_TRUE(is_loss(wc)) << ibv_wc_status_str(wc.status);
    }
    EXPECT_EQ(here.side.state(), IBV_QPS_ERR);
    EXPECT_EQ(ibv_dereg_mr(here.memory.mr), 0);
    here.memory.mr = nullptr;
    EXPECT_EQ(ibv_destroy_qp(here.side.qp), 0);
    here.side.qp = nullptr;
}

// Keeps so many requests out until one fails; post(number) posts one. Returns how that one failed.
template <class Post>
ibv_wc stream(Here& here, std::uint64_t at_once, Post post) {
    std::uint64_t posted = 0, done = 0;
    for (;;) {
        while (posted < done + at_once) EXPECT_EQ(post(posted++), 0);
        const ibv_wc wc = completion(here.side.send_cq);
        if (wc.status != IBV_WC_SUCCESS) {
            while (++done < posted) EXPECT_EQ(completion(here.side.send_cq).status, IBV_WC_WR_FLUSH_ERR);
            return wc;
        }
        done++;
    }
}

int copy(Here& here, std::uint64_t number) {
    const std::size_t length = number % 3 == 2 ? 100'000 : kSize;
    here.memory.set_word(length / 8 - 1, number + 1);
    return here.post(number % 4 < 2 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, length, 0, number);
}

// One at a time is executed by the initiator, several may leave as packets. In every other pair of rounds the
// survivor copies as well.
TEST(Neighbor, OneIsKilledWhileItCopies) {
    Chance chance;
    Bystanders bystanders;
    const auto began = Clock::now();
    for (int round = 0; go_on(round, began); round++) {
        SCOPED_TRACE(testing::Message() << "round " << round);
        const std::uint64_t at_once = round % 2 ? 8 : 1;
        Neighbor victim(
            [&](Here& there) {
                stream(there, at_once, [&](std::uint64_t number) { return copy(there, number); });
                for (;;) pause();
            },
            victims());
        Here here(victim.in, victim.out, hasty());
        EXPECT_TRUE(wait_until([&] { return here.memory.load_word(kSize / 8 - 1) != 0; }));
        Killer killer(victim, chance.up_to(kLatest));
        const bool copies = round % 4 >= 2;
        if (copies) {
            const ibv_wc wc = stream(here, at_once, [&](std::uint64_t number) { return copy(here, number); });
            EXPECT_TRUE(is_loss(wc)) << ibv_wc_status_str(wc.status);
        }
        killer.wait();
        expect_loss(here, copies);
        bystanders.go_on();
    }
}

// Large WRITEs or READs, long enough that both copy them (src/transport/rc_halves.cpp): by the victim or, in
// every other round, by the survivor.
TEST(Neighbor, OneIsKilledWhileBothCopy) {
    constexpr std::chrono::microseconds kLong{200'000};
    Chance chance;
    Bystanders bystanders;
    const auto began = Clock::now();
    for (int round = 0; go_on(round, began); round++) {
        SCOPED_TRACE(testing::Message() << "round " << round);
        const bool survivor = round % 2;
        const auto large = [round](Here& here, std::uint64_t number) {
            return here.post(round % 4 < 2 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, kSize, 0, number);
        };
        Neighbor victim(
            [&](Here& there) {
                there.meet();
                if (!survivor) stream(there, 16, [&](std::uint64_t number) { return large(there, number); });
                for (;;) pause();
            },
            victims());
        Here here(victim.in, victim.out, hasty());
        here.meet();
        Killer killer(victim, chance.up_to(kLong));
        if (survivor) {
            const ibv_wc wc = stream(here, 16, [&](std::uint64_t number) { return large(here, number); });
            EXPECT_TRUE(is_loss(wc)) << ibv_wc_status_str(wc.status);
        }
        killer.wait();
        expect_loss(here, survivor);
        bystanders.go_on();
    }
}

// Messages: their words say which one it is.
constexpr std::size_t kSlot = 64 << 10, kSlots = kSize / kSlot;
std::size_t length_of(std::uint64_t message) { return message / 5 % 2 ? kSlot : 8; }

int send(Here& here, Memory& from, std::uint64_t message) {
    const std::size_t at = message % kSlots * kSlot, length = length_of(message);
    for (std::size_t i = 0; i < length / 8; i++) from.set_word(at / 8 + i, message << 32 | i);
    ibv_sge sge = from.sge(at, length);
    return Request(message, IBV_WR_SEND, &sge, 1).post(here.side.qp);
}

// What comes is what was sent, whole and in its order; then the receives are flushed.
class Reader {
   public:
    explicit Reader(Here& here) : here_(here) {
        for (std::uint64_t slot = 0; slot < kSlots; slot++) post(slot);
    }
    void read_what_is_there() {
        for (ibv_wc wc; ibv_poll_cq(here_.side.receive_cq, 1, &wc) == 1;) take(wc);
    }
    std::uint64_t messages() const { return messages_; }
    bool all_flushed() const { return flushed_ == kSlots; }

   private:
    void post(std::uint64_t slot) {
        EXPECT_EQ(here_.side.post_receive(slot, here_.memory.sge(slot * kSlot, kSlot)), 0);
    }
    void take(const ibv_wc& wc) {
        const std::size_t slot = messages_ % kSlots;
        if (wc.status != IBV_WC_SUCCESS) {
            EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR) << ibv_wc_status_str(wc.status);
            flushed_++;
            return;
        }
        EXPECT_EQ(flushed_, 0u);
        EXPECT_EQ(wc.wr_id, slot);
        EXPECT_EQ(wc.byte_len, length_of(messages_)) << "message " << messages_;
        for (std::size_t at = 0; at < wc.byte_len / 8; at++)
            ASSERT_EQ(here_.memory.load_word(slot * kSlot / 8 + at), messages_ << 32 | at)
                << "message " << messages_ << " at " << at;
        messages_++;
        post(slot);
    }

    Here& here_;
    std::uint64_t messages_ = 0, flushed_ = 0;
};

// Small WRITEs in one list, while messages come. Whether they fail.
bool write_list(Here& here, Reader& reader, Memory& from, std::size_t together) {
    ibv_sge sge = from.sge(0, 64);
    std::vector<Request> list(together, Request(1, IBV_WR_RDMA_WRITE, &sge, 1));
    for (std::size_t i = 0; i < together; i++) {
        here.aim(list[i], 64 * i);
        if (i + 1 < together) list[i].next = &list[i + 1];
    }
    EXPECT_EQ(list[0].post(here.side.qp), 0);
    bool lost = false;
    for (std::size_t i = 0; i < together; i++) {
        ibv_wc wc{};
        if (!wait_until([&] {
                reader.read_what_is_there();
                return ibv_poll_cq(here.side.send_cq, 1, &wc) == 1;
            })) {
            ADD_FAILURE() << "no completion";
            return true;
        }
        if (wc.status == IBV_WC_SUCCESS && !lost) continue;
        EXPECT_EQ(wc.status, lost ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR)
            << ibv_wc_status_str(wc.status);
        lost = true;
    }
    return lost;
}

// In every other round the survivor writes at the same time, to other memory of its.
TEST(Neighbor, OneIsKilledWhileItSends) {
    Chance chance;
    Bystanders bystanders;
    const auto began = Clock::now();
    for (int round = 0; go_on(round, began); round++) {
        SCOPED_TRACE(testing::Message() << "round " << round);
        Neighbor victim(
            [](Here& there) {
                Memory from(there.side.pd, kSize);
                there.meet();
                stream(there, kSlots / 2, [&](std::uint64_t message) { return send(there, from, message); });
                for (;;) pause();
            },
            victims());
        Here here(victim.in, victim.out, hasty());
        Memory from(here.side.pd, 64);
        Reader reader(here);
        here.meet();
        EXPECT_TRUE(wait_until([&] {
            reader.read_what_is_there();
            return reader.messages() > 12;
        }));
        Killer killer(victim, chance.up_to(kLatest));
        bool lost = false;
        while (!lost && (round % 2 || !killer.over())) {
            reader.read_what_is_there();
            if (round % 2) lost = write_list(here, reader, from, 16);
        }
        killer.wait();
        EXPECT_TRUE(lost || write_list(here, reader, from, 1));
        EXPECT_TRUE(wait_until([&] {
            reader.read_what_is_there();
            return reader.all_flushed();
        }));
        expect_loss(here, true);
        bystanders.go_on();
    }
}

// A region that it offers, once it is there.
struct Offer {
    std::atomic<std::uint64_t> number, address;
    std::atomic<std::uint32_t> key;
};
constexpr std::size_t kOffered = 256 << 10;

[[noreturn]] void register_and_take_away(Here& there) {
    for (;;) Memory another(there.side.pd, kOffered);
}

// That which is just being written to. Now and then as soon as that begins; over packets the rest is refused.
[[noreturn]] void offer_and_take_away(Here& there, Offer& offer) {
    for (std::uint64_t number = 1;; number++) {
        Memory offered(there.side.pd, kOffered);
        offer.address = offered.address();
        offer.key = offered.mr->rkey;
        offer.number = number;
        const std::size_t at = number % 16 == 0 ? 0 : kOffered / 8 - 1;
        wait_until([&] { return offered.load_word(at) == number; });
    }
}

// Writes to what is offered, until nothing is any more. Whether that failed.
bool write_to_offers(Here& here, const Offer& offer, const Killer& killer) {
    for (std::uint64_t number = 1;; number++) {
        if (!wait_until([&] { return offer.number == number || killer.over(); })) return false;
        if (offer.number != number) return false;
        here.peer.memory = offer.address;
        here.peer.rkey = offer.key;
        here.memory.set_word(0, number);
        here.memory.set_word(kOffered / 8 - 1, number);
        EXPECT_EQ(here.post(IBV_WR_RDMA_WRITE, kOffered), 0);
        const ibv_wc wc = completion(here.side.send_cq);
        if (wc.status == IBV_WC_SUCCESS) continue;
        EXPECT_TRUE(is_loss(wc) || wc.status == IBV_WC_REM_ACCESS_ERR) << ibv_wc_status_str(wc.status);
        return true;
    }
}

// In every other round the region that is written to; else another one, beside it.
TEST(Neighbor, OneIsKilledWhileItTakesARegionAway) {
    Chance chance;
    Bystanders bystanders;
    const auto began = Clock::now();
    for (int round = 0; go_on(round, began); round++) {
        SCOPED_TRACE(testing::Message() << "round " << round);
        Shared<Offer> offer;
        const bool that = round % 2;
        Neighbor victim(
            [&](Here& there) {
                there.meet();
                that ? offer_and_take_away(there, *offer) : register_and_take_away(there);
            },
            victims());
        Here here(victim.in, victim.out, hasty());
        here.meet();
        Killer killer(victim, chance.up_to(kLatest));
        bool lost = true;
        if (that) {
            lost = write_to_offers(here, *offer, killer);
        } else {
            const ibv_wc wc = stream(here, 1, [&](std::uint64_t number) { return copy(here, number); });
            EXPECT_TRUE(is_loss(wc)) << ibv_wc_status_str(wc.status);
        }
        killer.wait();
        expect_loss(here, lost);
        bystanders.go_on();
    }
}

}  // namespace
}  // namespace verbena::verbs_test
