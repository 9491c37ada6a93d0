// Messages in one direction between two queue pairs of any service, and what must become of them:
//
//     RC, XRC   each is delivered once, whole and in order, and completes successfully
//     UC        whole or not at all; in order and once unless the network reorders or doubles packets; a
//               WRITE that got lost may have written a prefix
//     UD        whole, with its GRH, once unless the network doubles it; to a group: to each member once, and
//               to nobody who has left
//
// A message that is forbidden (a wrong Q_Key, a queue of another XRC domain) never arrives.
//
// Thread safety: none.
#pragma once

#include <map>
#include <string>

#include "sim/pool.h"

namespace verbena::sim {

struct Message {
    transport::Operation operation = transport::Operation::send;
    std::uint32_t flags = 0;
    std::uint32_t length = 0;
    std::uint64_t key = 0;     // of its data (pattern.h); the low half is its immediate
    std::uint32_t source = 0;  // where its data lies, or a result goes: offset in the sender's arena
    std::uint32_t slot = 0;    // one-sided operations: its own place in the receiver's arena
    unsigned queue = 0;        // XRC: which of the stream's queues it names
    bool forbidden = false;
    bool to_group = false;

    bool completed = false;  // successfully
    Time posted_at = 0;
    std::uint64_t before = 0;                     // atomics: what is in the slot
    memory::Keys victim{};                        // SEND with invalidate
    std::map<std::uint32_t, unsigned> delivered;  // by queue pair
};

struct StreamPlan {
    transport::Service service = transport::Service::rc;
    std::uint32_t mtu = 1024;
    std::uint32_t depth = 16;  // of the send queue
    Duration think = 0;        // at most, between posts
    Time start = 0;
    bool ends_shared = false;      // the receiver uses a shared queue
    bool block_own = false;        // UD
    bool faulty_order = false;     // the network reorders
    bool doubles = false;          // the network doubles packets
    bool lossless = false;         // nothing gets lost, and receives are always there
    Duration abandoned_after = 0;  // from the start, both ends are destroyed; 0: never
    std::vector<Message> messages;
};

class Stream final : public Party {
   public:
    Stream(Station& from, Station& to, StreamPlan plan, std::uint64_t seed);

    void use(std::vector<Pool*> queues) { queues_ = std::move(queues); }
    void create();  // memory and pools are there
    void connect();

    void completed(const completion::Completion& completion) override;
    bool turn() override;

    bool over() const { return abandoned_ || failed_ || done_ == plan_.messages.size(); }
    void end();      // both queue pairs go to the error state
    void abandon();  // both are destroyed
    void settle();   // the run is over
    void destroy();

    // A receive of `receiver_qp` holds this message of ours; answers the bytes used.
    std::size_t delivered(std::uint32_t index, Station& station, std::uint32_t receiver_qp,
                          const Delivery& delivery);
    std::uint32_t index_of(std::uint64_t first_word, bool& found) const;

    Station& from() { return from_; }
    Station& to() { return to_; }
    const StreamPlan& plan() const { return plan_; }
    transport::QueuePair* receiver() { return receiver_; }
    std::uint32_t sender_number() const { return sender_number_; }
    std::uint32_t receiver_number() const { return receiver_number_; }
    std::string describe() const;

    // UD: where messages to a group go, and who of the two is in it, and when.
    struct Membership {
        Time from = kNever, until = kNever;
    };
    void use_group(const Gid& group, Pool* senders_queue) {
        group_ = group;
        senders_queue_ = senders_queue;
    }
    const Membership* membership(std::uint32_t number) const;  // nullptr: none of ours
    void join();
    void leave();
    // Nothing was lost: the group's messages reached that queue pair, which was there all the time.
    void settle_member(std::uint32_t number);

   private:
    bool reliable() const {
        return plan_.service == transport::Service::rc || plan_.service == transport::Service::xrc_send;
    }
    void build(std::uint32_t index, transport::SendRequest& request, transport::Sge& sge);
    void check_result(Message& m);
    void settle_slot(Message& m);
    void violation(const char* format, ...) __attribute__((format(printf, 2, 3)));

    Station &from_, &to_;
    StreamPlan plan_;
    Random random_;
    std::vector<Pool*> queues_;  // XRC: several; otherwise one
    transport::QueuePair *sender_ = nullptr, *receiver_ = nullptr;
    std::uint32_t sender_number_ = 0, receiver_number_ = 0;
    std::uint32_t party_ = 0;
    std::uint32_t posted_ = 0, done_ = 0;
    std::int64_t last_delivered_ = -1;
    Time may_post_at_ = 0;
    bool failed_ = false, ended_ = false, abandoned_ = false;
    wire::Path path_;  // UD
    wire::Path group_path_;
    Gid group_;
    Pool* senders_queue_ = nullptr;  // the sender is a member, too
    Membership member_, own_member_;
    std::map<std::uint64_t, std::uint32_t> by_word_;
};

inline constexpr std::uint32_t kStreamQkey = 0x1234567;

}  // namespace verbena::sim
