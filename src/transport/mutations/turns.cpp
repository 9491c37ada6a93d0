#include "transport/mutations/turns.h"

#include "base/mutation.h"
#include "base/others.h"
#include "transport/rc_harness.h"

namespace verbena::transport::testing {
namespace {

enum class Act { open, close, serve };
constexpr const char* kNames[] = {"opens the window", "closes the window", "gives the next his turn"};
constexpr unsigned kMostLooks = 16, kMostRounds = 100;
constexpr std::uint32_t kOther = 0x2000;  // a queue pair that waits

struct Interleaving {
    bool crowded;    // somebody waits before
    unsigned at[2];  // before which of the looks
    Act act[2];
};

class Run {
   public:
    explicit Run(const Interleaving& chosen) : chosen_(chosen) {
        harness_.flows = &table_;
        harness_.start();
        flow_ = table_.find(harness_.side[0].path.destination, 0x1001);
        do_it(Act::close);
        if (chosen.crowded) flow_->wait(kOther, false);
    }
    ~Run() { others() = nullptr; }

    // Empty, or what is wrong. `looks`: how many there were.
    std::string go(unsigned& looks) {
        harness_.post_receive(1, 1, {harness_.side[1].sge(0, 100)});
        SendRequest request;
        request.operation = Operation::send;
        harness_.post(0, request, {harness_.side[0].sge(0, 100)});
        others() = [this] { look(); };
        std::string wrong;
        if (!transmit()) wrong = "goes round for ever";
        if (my_turn_) {  // who gives it waits for the queue pair's lock
            harness_.side[0].qp->your_turn();
            transmit();
        }
        others() = nullptr;
        looks = looks_;
        if (wrong.empty() && harness_.packets(0).empty() && !waits()) wrong = "is forgotten";
        return wrong;
    }

   private:
    bool transmit() {
        memory::Section section(harness_.side[0].sections);
        for (unsigned round = 0; round < kMostRounds; round++)
            if (harness_.side[0].qp->transmit(harness_.side[0], harness_.now, 16, false)) return true;
        return false;
    }

    bool waits() {
        while (const std::uint32_t number = flow_->next_waiting())
            if (number == harness_.side[0].qp->number()) return true;
        return false;
    }

    void look() {
        if (acting_) return;
        acting_ = true;
        for (int i = 0; i < 2; i++)
            if (chosen_.at[i] == looks_) do_it(chosen_.act[i]);
        looks_++;
        acting_ = false;
    }

    void do_it(Act act) {
        if (act == Act::serve) {
            if (flow_->allows(Flow::kPacketOverhead) &&
                flow_->next_waiting() == harness_.side[0].qp->number())
                my_turn_ = true;
        } else if (act == Act::open) {
            flow_->withdrawn(std::exchange(others_in_flight_, 0));
        } else if (others_in_flight_ == 0) {
            others_in_flight_ = flow_->window();
            flow_->sent(others_in_flight_);
        }
    }

    const Interleaving chosen_;
    FlowTable table_;
    Harness harness_;
    std::shared_ptr<Flow> flow_;
    std::uint32_t others_in_flight_ = 0;
    unsigned looks_ = 0;
    bool acting_ = false;
    bool my_turn_ = false;
};

}  // namespace

std::string find_missed_turn() {
    constexpr Act kActs[] = {Act::open, Act::close, Act::serve};
    for (const bool crowded : {false, true})
        for (unsigned first = 0; first < kMostLooks; first++)
            for (unsigned second = first; second < kMostLooks; second++)
                for (const Act one : kActs)
                    for (const Act two : kActs) {
                        unsigned looks = 0;
                        const std::string wrong = Run({crowded, {first, second}, {one, two}}).go(looks);
                        if (looks > kMostLooks) return "more looks than interleavings are tried";
                        if (wrong.empty()) continue;
                        return "a request " + wrong + " when another " + kNames[static_cast<int>(one)] +
                               " before look " + std::to_string(first) + " and " +
                               kNames[static_cast<int>(two)] + " before look " + std::to_string(second) +
                               (crowded ? ", somebody else waiting" : "");
                    }
    return {};
}

}  // namespace verbena::transport::testing
