#include "sim/process.h"

#include <algorithm>

namespace verbena::sim {
namespace {

constexpr std::uint32_t kQpNumbers = 4096;  // a block, as the daemon hands out
constexpr unsigned kMostRounds = 2000;      // of one turn; more is a busy loop

}  // namespace

Process::Process(World& world, const ProcessPlan& plan, std::uint32_t first_qp, std::uint64_t seed)
    : world_(world),
      plan_(plan),
      random_(seed),
      segment_(adapter::Segment::create_on_heap(
          {.regions = 512, .queue_pairs = plan.most_queue_pairs, .objects = 16})),
      link_(world.network, *this, plan.bursts, plan.largest_payload, plan.longest_run),
      direct_(world, plan.direct, mix(seed) ^ 0x646972) {
    capacity = plan.buffer;
    link_.stores = [this](const wire::Path& path, const SimLink::Place& place, const std::uint8_t* from) {
        return direct_.store(path, place, from);
    };
    adapter::Adapter::Setup setup;
    setup.link = &link_;
    setup.segment = segment_.get();
    if (plan.direct.there) setup.direct = &direct_;
    setup.first_qp_number = first_qp;
    setup.qp_numbers = kQpNumbers;
    setup.random_seed = random_.next32();
    adapter_ = std::make_unique<adapter::Adapter>(setup);
    world_.network.attach(plan.host, first_qp, kQpNumbers, *this);
}

Process::~Process() { world_.network.detach(*this); }

void Process::arrived() {
    something_arrived_ = true;
    if (!dead_) wake(world_.now() + random_.between(0, plan_.latency));
}

void Process::wake(Time at) {
    if (at == kNever || dead_) return;
    at = std::max({at, world_.now(), paused_until_});
    if (turn_at_ <= at) return;
    turn_at_ = at;
    world_.scheduler.at(at, [this, at] {
        if (turn_at_ != at) return;  // an earlier turn took its place
        turn_at_ = kNever;
        run();
    });
}

void Process::pause(Time until) {
    pauses_.push_back({world_.now(), until});
    paused_until_ = std::max(paused_until_, until);
    turn_at_ = kNever;
    wake(until);
}

bool Process::paused_between(Time from, Time to) const {
    return std::ranges::any_of(pauses_, [&](const Interval& p) { return p.begin <= to && from <= p.end; });
}

void Process::die() {
    dead_ = true;
    world_.network.detach(*this);
    frames.clear();
}

void Process::run() {
    if (dead_) return;
    turns_++;
    world_.watch.timer_turn = !something_arrived_;
    const std::uint64_t sent = link_.packets_sent();
    const bool had_packets = !frames.empty();
    const bool adapters = deadline_ <= world_.now();  // it asked for this turn
    serve();
    bool worked = false;
    for (unsigned round = 0;; round++) {
        bool again = false;
        for (Worker* worker : workers_) again |= worker->turn();
        if (!again) break;
        worked = true;
        serve();
        if (round > kMostRounds) {
            world_.verdict.violation(world_.now(), "a process does not come to rest");
            break;
        }
    }
    world_.watch.timer_turn = false;
    something_arrived_ = false;
    if (adapters && !had_packets && !worked && link_.packets_sent() == sent) idle_turns_++;
    sleep();
}

void Process::serve() {
    const auto progress = [&] {
        return plan_.rows ? adapter_->progress(world_.now(), true, adapter::Adapter::Caller::posts)
                          : adapter_->progress(world_.now(), false);
    };
    for (unsigned round = 0; progress() > 0; round++) {
        if (round > kMostRounds) {
            world_.verdict.violation(world_.now(), "the adapter does not come to rest");
            return;
        }
    }
    if (!plan_.rows && random_.chance(plan_.idle_chance)) adapter_->progress(world_.now(), true);
}

// Deadlines that have come must have been served.
void Process::sleep() {
    Time deadline = adapter_->next_deadline();
    for (unsigned round = 0; deadline <= world_.now(); round++) {
        if (round > 10) {
            world_.verdict.violation(world_.now(), "the adapter's deadline stays %lld ns in the past",
                                     static_cast<long long>(world_.now() - deadline));
            return;
        }
        adapter_->progress(world_.now(), false);
        deadline = adapter_->next_deadline();
    }
    deadline_ = deadline;
    wake(deadline);
    if (!frames.empty()) wake(world_.now());
}

void Process::judge_refusals() {
    const adapter::AdapterCounters& c = segment_->counters();
    // A flipped bit of the destination QPN may name a queue pair that does not exist.
    const std::uint64_t refused = c.bad_icrc + c.no_queue_pair + c.strays;
    if (c.malformed != 0 || c.runts != 0)
        world_.verdict.violation(world_.now(), "malformed packets with a good ICRC");
    if (refused != link_.corrupted_received())
        world_.verdict.violation(world_.now(), "%llu datagrams came corrupted, %llu were refused",
                                 static_cast<unsigned long long>(link_.corrupted_received()),
                                 static_cast<unsigned long long>(refused));
}

}  // namespace verbena::sim
