// The program of one process in runs of all services (services_run.h): its memory, completion queues, receive
// queues, and whoever has something to do there. What completes is dispatched by its wr_id, whose upper half
// is the number of a Party.
//
// Thread safety: none.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "sim/arena.h"
#include "sim/process.h"
#include "sim/watched_cq.h"

namespace verbena::sim {

inline constexpr memory::PdNumber kStationPd = 1;
inline constexpr memory::Access kEverything = memory::kLocalWrite | memory::kRemoteWrite |
                                              memory::kRemoteRead | memory::kRemoteAtomic |
                                              memory::kFlushGlobal | memory::kFlushPersistent;

class Station;

// Whose requests complete.
class Party {
   public:
    virtual ~Party() = default;
    virtual void completed(const completion::Completion& completion) = 0;
    virtual bool turn() = 0;  // true if anything was done
};

class Station final : public Worker, public transport::QpListener {
   public:
    Station(World& world, const ProcessPlan& plan, std::uint32_t first_qp, std::uint64_t seed);

    World& world() { return world_; }
    Process& process() { return process_; }
    adapter::Adapter& adapter() { return process_.adapter(); }
    Random& random() { return random_; }
    Arena& arena() { return arena_; }
    const Gid& gid() const { return gid_; }
    const memory::Keys& keys() const { return keys_; }
    WatchedCq& cq() { return cq_; }
    WatchedCq& xrc_cq() { return xrc_cq_; }

    // After all reservations.
    void allocate();
    // Its number, the upper half of wr_ids.
    std::uint32_t add(Party& party) {
        parties_.push_back(&party);
        return static_cast<std::uint32_t>(parties_.size() - 1);
    }

    // A queue pair in INIT, or nullptr after a violation; the setup needs service and queues only.
    transport::QueuePair* create(transport::QpSetup setup, std::uint32_t qkey);
    // On to RTS; `peer` is not looked at by UD.
    void connect(transport::QueuePair& qp, const Gid& peer, std::uint32_t peer_number, std::uint32_t mtu,
                 std::uint32_t sq_psn, std::uint32_t rq_psn);
    void fail(transport::QueuePair& qp);
    void destroy(transport::QueuePair*& qp);
    void post(transport::QueuePair& qp, const transport::SendRequest& request);

    // What the queue pair has been told.
    unsigned last_wqe_events(std::uint32_t number) const;

    bool turn() override;
    void qp_event(transport::QueuePair& qp, transport::QpEvent event) override;

    transport::Sge sge(std::uint32_t offset, std::uint32_t length) const {
        return {address(offset), length, keys_.lkey};
    }
    std::uint64_t address(std::uint32_t offset) const {
        return reinterpret_cast<std::uintptr_t>(arena_.address(offset));
    }

   private:
    bool take(const completion::Completion& completion);

    World& world_;
    Process process_;
    Random random_;
    Arena arena_;
    Gid gid_;
    memory::Keys keys_{};
    WatchedCq cq_, xrc_cq_;
    std::vector<Party*> parties_;
    std::unordered_map<std::uint32_t, unsigned> last_wqe_;
    std::unordered_map<std::uint32_t, Time> destroyed_;
};

}  // namespace verbena::sim
