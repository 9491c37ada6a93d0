// A simulated process: an adapter on the heap, its link and inbox, and the turns that it gets. A turn is what
// a program's thread does when something woke it: handle packets and timers, look at completion queues, post.
// Between turns nothing happens in a process, and a paused or dead one gets none.
//
// Thread safety: none.
#pragma once

#include <memory>
#include <vector>

#include "adapter/adapter.h"
#include "adapter/segment.h"
#include "sim/plan.h"
#include "sim/sim_direct.h"
#include "sim/sim_link.h"
#include "sim/world.h"

namespace verbena::sim {

// What a process does with its turns.
class Worker {
   public:
    virtual ~Worker() = default;
    virtual bool turn() = 0;  // true if anything was done
};

class Process final : public Inbox {
   public:
    Process(World& world, const ProcessPlan& plan, std::uint32_t first_qp, std::uint64_t seed);
    ~Process() override;
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;

    adapter::Adapter& adapter() { return *adapter_; }
    adapter::Segment& segment() { return *segment_; }
    memory::Sections& sections() { return segment_->sections(); }
    SimDirect& direct() { return direct_; }
    const ProcessPlan& plan() const { return plan_; }
    World& world() { return world_; }
    Random& random() { return random_; }
    void add(Worker& worker) { workers_.push_back(&worker); }

    void arrived() override;  // by the network
    void wake(Time at);       // a turn, at that time or earlier
    void pause(Time until);
    void die();
    bool dead() const { return dead_; }
    bool paused_between(Time from, Time to) const;

    // Turns that the adapter asked for by a deadline, and in which nothing happened.
    std::uint64_t idle_turns() const { return idle_turns_; }
    std::uint64_t turns() const { return turns_; }

    // Every corrupted datagram was refused, and no other.
    void judge_refusals();

   private:
    void run();
    void serve();
    void sleep();

    World& world_;
    const ProcessPlan plan_;
    Random random_;
    std::unique_ptr<adapter::Segment> segment_;
    SimLink link_;
    SimDirect direct_;
    std::unique_ptr<adapter::Adapter> adapter_;
    std::vector<Worker*> workers_;
    Time turn_at_ = kNever;
    Time deadline_ = kNever;  // of the adapter, when the last turn ended
    Time paused_until_ = 0;
    std::vector<Interval> pauses_;
    bool dead_ = false;
    bool something_arrived_ = false;
    std::uint64_t idle_turns_ = 0, turns_ = 0;
};

}  // namespace verbena::sim
