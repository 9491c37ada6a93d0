// A completion queue and an independent account of its notification: an event must come for each arming as
// soon as a completion qualifies (IBA 11.4.2.2), and none otherwise.
#pragma once

#include "completion/completion_queue.h"
#include "sim/plan.h"
#include "sim/world.h"

namespace verbena::sim {

class WatchedCq final : public completion::CompletionListener {
   public:
    WatchedCq(World& world, std::uint32_t capacity, const ProcessPlan& habits, std::uint64_t seed)
        : world_(world), habits_(habits), random_(seed), queue_(capacity, this) {
        if (habits_.events) arm();
    }

    completion::CompletionQueue& queue() { return queue_; }

    // What the program does in a turn: polls, or polls because of an event, arming again before. `take` gets
    // each completion and answers whether it was solicited. True if anything was taken.
    template <typename Take>
    bool look(Take&& take, bool force) {
        const bool due = force || !habits_.events || event_ || more_ || random_.one_in(8);
        if (!due) return false;
        if (habits_.events && event_) {
            event_ = false;
            arm();
        }
        completion::Completion some[16];
        const std::size_t n = queue_.poll({some, std::min<std::size_t>(habits_.poll_at_once, 16)});
        for (std::size_t i = 0; i < n; i++) judge(some[i], take(some[i]));
        more_ = n == habits_.poll_at_once;
        return n > 0;
    }

   private:
    void arm() {
        queue_.arm(habits_.solicited_only);
        armed_ = true;
        before_ = queue_.waiting();
    }

    void judge(const completion::Completion& completion, bool solicited) {
        if (!armed_) return;
        if (before_ > 0) {
            before_--;
            return;
        }
        if (!habits_.solicited_only || solicited || completion.status != completion::Status::success)
            world_.verdict.violation(world_.now(), "an armed completion queue gave no event for wr_id 0x%llx",
                                     static_cast<unsigned long long>(completion.wr_id));
    }

    void completion_event(completion::CompletionQueue&) override {
        if (!armed_)
            world_.verdict.violation(world_.now(), "an event of a completion queue that is not armed");
        armed_ = false;
        event_ = true;
    }
    void overrun(completion::CompletionQueue&) override {
        world_.verdict.violation(world_.now(), "a completion queue overran");
    }

    World& world_;
    const ProcessPlan& habits_;
    Random random_;
    bool armed_ = false, event_ = false, more_ = false;
    std::uint32_t before_ = 0;  // completions that were there at the arming
    completion::CompletionQueue queue_;
};

}  // namespace verbena::sim
