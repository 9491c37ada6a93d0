#include "sim/rc_run.h"

#include <algorithm>
#include <memory>

#include "sim/endpoint.h"

namespace verbena::sim {
namespace {

constexpr Duration kLongestRun = 600 * kSecond;  // virtual; every counter has run out long before
constexpr std::uint64_t kMostEventsOfRun = 4'000'000;
constexpr memory::PdNumber kPd = 1;
constexpr std::uint64_t kIdleTurns = 40;

class RcRun {
   public:
    explicit RcRun(std::uint64_t seed) : plan_(draw_plan(seed)), random_(mix(seed) ^ 0x72756e), world_(seed) {
        build();
    }

    Outcome run();

   private:
    void build();
    void watch_direct();
    std::uint64_t late_receives() const;
    Endpoint* end_of(std::uint32_t qp_number);
    void schedule_disturbances();
    void watch_ends();
    bool over() const;
    void judge();
    void judge_processes();

    const Plan plan_;
    Random random_;
    World world_;
    std::vector<std::unique_ptr<SharedRegion>> shared_;
    std::vector<std::unique_ptr<Process>> processes_;
    std::vector<std::unique_ptr<Endpoint>> ends_;
    std::vector<bool> close_planned_;
};

void RcRun::build() {
    for (unsigned i = 0; i < plan_.hosts; i++) world_.network.add_host();
    for (const auto& [way, faults] : plan_.faults) world_.network.faults(way.first, way.second) = faults;
    std::uint32_t first_qp = 4096;
    for (const ProcessPlan& plan : plan_.processes) {
        processes_.push_back(std::make_unique<Process>(world_, plan, first_qp, random_.next()));
        first_qp += 4096;
        shared_.push_back(std::make_unique<SharedRegion>());
        SharedRegion& shared = *shared_.back();
        for (int i = 0; i < 2; i++) shared.words[i] = shared.first[i] = random_.next();
        processes_.back()->adapter().regions().add(kPd, shared.words, sizeof shared.words,
                                                   reinterpret_cast<std::uintptr_t>(shared.words),
                                                   memory::kLocalWrite | memory::kRemoteAtomic, shared.keys);
    }
    for (const EndpointPlan& plan : plan_.endpoints)
        ends_.push_back(std::make_unique<Endpoint>(*processes_[plan.process], *shared_[plan.process], plan,
                                                   random_.next(), static_cast<unsigned>(ends_.size())));
    close_planned_.resize(ends_.size());
    for (std::size_t i = 0; i < ends_.size(); i++) ends_[i]->create(*ends_[i ^ 1]);
    for (auto& end : ends_) end->connect(plan_.ipv6);
    watch_direct();
}

Endpoint* RcRun::end_of(std::uint32_t qp_number) {
    for (auto& end : ends_)
        if (end->is(qp_number)) return end.get();
    return nullptr;
}

void RcRun::watch_direct() {
    for (auto& process : processes_) {
        process->direct().executes = [this](const transport::DirectTarget& target, auto list, bool write) {
            if (Endpoint* end = end_of(target.qp_number)) end->link_executes(target, list, write);
        };
        process->direct().places = [this](const transport::PlaceTarget& target, auto list) {
            if (Endpoint* end = end_of(target.qp_number)) end->link_places(target, list);
        };
    }
}

void RcRun::schedule_disturbances() {
    const Time start = world_.now();
    for (const auto& [hosts, interval] : plan_.partitions)
        world_.network.partition(hosts.first, hosts.second, start + interval.begin, start + interval.end);
    for (const auto& [process, interval] : plan_.pauses)
        world_.scheduler.at(start + interval.begin,
                            [this, p = process, end = start + interval.end] { processes_[p]->pause(end); });
    if (plan_.vanishes == ~0u) return;
    world_.scheduler.at(start + plan_.vanishes_at, [this] { processes_[plan_.vanishes]->die(); });
    world_.scheduler.at(start + plan_.vanishes_at + plan_.vanish_noticed, [this] {
        for (std::size_t i = 0; i < ends_.size(); i++)
            if (ends_[i ^ 1]->process().dead()) ends_[i]->close();
    });
}

// A connection whose ends have nothing left to do, or of which one has failed, is closed at both, as the CM
// would.
void RcRun::watch_ends() {
    for (std::size_t i = 0; i < ends_.size(); i++) {
        if (close_planned_[i]) continue;
        const bool failed =
            !ends_[i]->process().dead() && ends_[i]->qp().state() == transport::QpState::error;
        const bool done = ends_[i]->idle() && ends_[i ^ 1]->idle();
        if (!failed && !done) continue;
        const Duration longest = failed ? random_.pick({1, 20, 3000}) * kMillisecond : 20 * kMillisecond;
        for (const std::size_t end : {i, i ^ 1}) {
            if (close_planned_[end]) continue;
            close_planned_[end] = true;
            world_.scheduler.after(random_.between(0, longest), [this, end] { ends_[end]->close(); });
        }
    }
}

bool RcRun::over() const {
    for (const auto& end : ends_)
        if (!end->closed()) return false;
    return true;
}

Outcome RcRun::run() {
    schedule_disturbances();
    const Time start = world_.now();
    while (world_.verdict.good() && !over()) {
        if (world_.scheduler.empty() || world_.now() - start > kLongestRun ||
            world_.scheduler.events() > kMostEventsOfRun) {
            world_.verdict.violation(world_.now(), "stuck: %s; %s",
                                     world_.scheduler.empty() ? "nothing will happen any more"
                                                              : "much has happened, and it does not end",
                                     "see the ends below");
            break;
        }
        world_.scheduler.step();
        watch_ends();
    }
    if (world_.verdict.good()) judge();
    Outcome outcome;
    outcome.violation = world_.verdict.text();
    if (!world_.verdict.good())
        for (const auto& end : ends_) outcome.details += "  " + end->describe() + "\n";
    world_.coverage.events += world_.scheduler.events();
    world_.coverage.runs++;
    outcome.coverage = world_.coverage;
    return outcome;
}

void RcRun::judge() {
    for (auto& end : ends_) end->settle();
    if (world_.verdict.good()) judge_processes();
    for (auto& end : ends_)
        if (world_.verdict.good()) end->verify();
}

// At most.
std::uint64_t RcRun::late_receives() const {
    const auto success = static_cast<std::size_t>(completion::Status::success);
    const bool any = std::ranges::any_of(plan_.endpoints, [](auto& end) { return end.receive_delay > 0; });
    return any ? world_.coverage.receive_statuses[success] : 0;
}

void RcRun::judge_processes() {
    for (std::size_t i = 0; i < processes_.size(); i++) {
        const SharedRegion& shared = *shared_[i];
        for (int w = 0; w < 2; w++)
            if (!linearizable(shared.first[w], shared.words[w], shared.atomics[w]))
                world_.verdict.violation(
                    world_.now(),
                    "process %zu: no order of the %zu atomics on word %d explains their results", i,
                    shared.atomics[w].size(), w);
        Process& process = *processes_[i];
        process.judge_refusals();
        // A timer may fire once for nothing when its deadline has moved; a responder looks for a late receive
        // ten times before its RNR NAK, or before it comes; and timers go on while a peer stands still.
        const std::uint64_t allowed = kIdleTurns + world_.coverage.packets / 2 +
                                      12 * (world_.coverage.naks_sent[kRnrLine] + late_receives()) +
                                      world_.coverage.directly[Coverage::stood_still];
        if (process.idle_turns() > allowed)
            world_.verdict.violation(world_.now(), "process %zu woke %llu times for nothing", i,
                                     static_cast<unsigned long long>(process.idle_turns()));
    }
}

}  // namespace

Outcome run_queue_pairs(std::uint64_t seed) { return RcRun(seed).run(); }

}  // namespace verbena::sim
