// One end of a connection: the program that posts the planned requests and receives, and the judge of every
// completion that it gets. What memory must hold is kept in the arena's expected copy; the rules are in
// endpoint_checks.cpp.
//
// Requests of one direction work on memory of their own (the peer's target region), and requests of one queue
// pair take effect in order; so the peer's memory follows from the requests alone, whatever the network does.
//
// Thread safety: none.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "sim/arena.h"
#include "sim/process.h"
#include "sim/shared_words.h"
#include "sim/watched_cq.h"

namespace verbena::sim {

struct Piece {
    std::uint32_t offset = 0, length = 0;  // in the arena
};

// Words of a process that all its connections share.
struct SharedRegion {
    alignas(64) std::uint64_t words[2];
    std::uint64_t first[2];
    memory::Keys keys{};
    std::vector<SharedAtomic> atomics[2];
};

class Endpoint final : public Worker, public transport::QpListener {
   public:
    Endpoint(Process& process, SharedRegion& shared, EndpointPlan plan, std::uint64_t seed, unsigned number);
    ~Endpoint() override;

    // In this order, for both ends.
    void create(Endpoint& peer);
    void connect(bool ipv6);

    bool turn() override;
    void qp_event(transport::QueuePair&, transport::QpEvent event) override;

    // Everything planned has completed, or failed.
    bool idle() const;
    // Moves the queue pair to the error state; what is posted must flush.
    void close();
    bool closed() const {
        return process_.dead() || (closing_ && receives_done_ == receives_posted_ && idle());
    }
    // Everything, of both ends, is over. First both settle what failed requests may have left, then both are
    // judged and destroy their queue pairs.
    void settle();
    void verify();

    // The link is about to do that for a request of ours.
    void link_executes(const transport::DirectTarget& target, std::span<const iovec> local, bool write);
    void link_places(const transport::PlaceTarget& target, std::span<const iovec> from);

    Process& process() { return process_; }
    transport::QueuePair& qp() { return *qp_; }
    bool is(std::uint32_t qp_number) const { return qp_ && qp_->number() == qp_number; }
    std::string describe() const;

   private:
    static constexpr std::uint32_t kNone = ~0u;

    struct OpState {
        std::vector<Piece> pieces;
        std::uint32_t rkey = 0;
        std::uint32_t receive = kNone;  // of the peer
        bool succeeded = false;
        bool delivered = false;  // its data was seen in the peer's receive
        Time posted_at = kNever;
        std::vector<std::uint8_t> snapshot;  // READ: the range as it is when all before it are executed
        std::uint64_t original = 0;          // atomic: the result
    };
    struct ReceiveState {
        std::vector<Piece> pieces;
        std::uint32_t op = kNone;  // of the peer
        Time posted_at = kNever;
    };

    // endpoint.cpp: the program
    void lay_out();
    void cut(std::uint32_t length, std::uint32_t count, std::vector<Piece>& pieces);
    void register_memory();
    void modify(transport::QpState state, std::uint32_t mask);
    bool look_at_queues();
    bool post_receives();
    bool post_sends();
    std::uint32_t post_batch(std::uint32_t count);
    void build(std::uint32_t index, transport::SendRequest& request, std::vector<transport::Sge>& sges);
    bool drain();
    std::uint64_t target_address(std::uint32_t offset) const;
    void note_edge();
    void live_again();
    void prepare_to_receive();

    // endpoint_checks.cpp: the judge of completions; endpoint_memory.cpp: of memory
    void will_execute(std::uint32_t index);
    bool completed(const completion::Completion& completion);
    void send_completed(const completion::Completion& completion, std::uint32_t index);
    bool receive_completed(const completion::Completion& completion, std::uint32_t index);
    void succeeded(std::uint32_t index);
    void check_effect(std::uint32_t index);
    void failed(const completion::Completion& completion, std::uint32_t index);
    bool explained(completion::Status status, std::uint32_t index, Time at);
    void check_delivery(std::uint32_t index);
    void check_write(std::uint32_t index);
    void check_read(std::uint32_t index, bool complete);
    void check_pairing();
    bool may_have_read(std::uint32_t index, std::uint32_t offset, std::uint8_t value) const;
    void check_fields(const completion::Completion& completion, const Op& op);
    std::uint8_t data_byte(std::uint32_t index, std::uint32_t offset) const;
    bool wrote(std::uint32_t index, std::uint32_t at, std::uint8_t& value) const;
    void check_atomic(std::uint32_t index);
    std::string place_of(std::uint32_t at) const;
    void settle_target();
    void settle_receives();
    void settle_results();
    void settle_shared();
    bool partly_executed(std::uint32_t index, std::span<const std::uint8_t> state,
                         std::span<const std::uint8_t> actual) const;
    void apply(std::uint32_t index, std::span<std::uint8_t> state) const;
    // endpoint_direct.cpp
    std::uint32_t find_request(const transport::DirectTarget& target, std::span<const iovec> local,
                               bool write) const;
    bool lies_in(const std::vector<Piece>& pieces, const iovec& local) const;
    bool laid_over(std::uint32_t index, std::uint32_t offset, std::uint8_t value) const;
    std::uint32_t most_parts() const;

    void violation(const char* format, ...) __attribute__((format(printf, 2, 3)));

    Process& process_;
    World& world_;
    SharedRegion& shared_;
    const EndpointPlan plan_;
    Random random_;
    const unsigned number_;
    Endpoint* peer_ = nullptr;
    transport::QueuePair* qp_ = nullptr;
    std::uint32_t peer_number_ = 0;
    std::unique_ptr<WatchedCq> send_cq_, receive_cq_;
    Arena arena_;
    std::uint32_t target_ = 0;  // offset in the arena
    std::vector<std::uint8_t> target_at_first_;
    std::uint64_t iova_ = 0;  // of the target's first byte
    memory::Keys local_keys_{}, target_keys_{}, closed_keys_{}, foreign_keys_{}, skewed_keys_{};
    std::vector<memory::Keys> victims_;       // for SEND with invalidate, by the peer's op
    std::vector<std::uint32_t> last_writer_;  // of the peer's target, by byte: index of an op, or kNone

    std::vector<OpState> ops_;
    std::vector<ReceiveState> receives_;
    std::unordered_map<std::uint64_t, std::uint32_t> op_by_id_, receive_by_id_;

    std::uint32_t posted_ = 0;     // ops
    std::uint32_t done_ = 0;       // ops that completed, or whose successors did
    std::uint32_t successes_ = 0;  // of them
    std::uint32_t receives_posted_ = 0, receives_done_ = 0, receive_successes_ = 0;
    bool receive_failed_ = false;
    bool broken_ = false;  // a request failed
    std::uint32_t posts_when_broken_ = 3;
    std::uint32_t executed_ = 0;  // ops that were before one that the link has executed
    Time last_success_ = 0;
    Time look_at_ = kNever;
    Time may_post_at_ = 0, may_receive_at_ = 0;
    bool ready_to_send_ = false;
    bool closing_ = false;
    bool draining_ = false, drained_ = false, drain_done_ = false;
    transport::QpState last_state_ = transport::QpState::reset;
};

}  // namespace verbena::sim
