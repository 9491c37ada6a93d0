#include "sim/cm_run.h"

#include <memory>
#include <vector>

#include "base/coverage.h"
#include "sim/cm_program.h"

namespace verbena::sim {
namespace {

constexpr Duration kProgramsLive = 3000 * kSecond;  // then they destroy everything
constexpr Duration kAftermath = 4000 * kSecond;     // until which the managers must have forgotten it
constexpr std::uint64_t kMostEventsOfCm = 400'000;
constexpr std::uint16_t kFirstPort = 7000;

class CmRun final : private CoverageObserver {
   public:
    explicit CmRun(std::uint64_t seed) : random_(mix(seed) ^ 0x636d), world_(seed), registry_(world_) {
        build();
    }
    Outcome run();

   private:
    void build();
    void draw_faults();
    CmHabits draw_habits();
    bool pass_until(Time time);
    void judge_managers();

    void cm_message(std::uint16_t attribute, int state) override {
        world_.coverage.cm[attribute][static_cast<std::size_t>(state) + 1]++;
    }

    Random random_;
    World world_;
    CmRegistry registry_;
    bool calm_ = false;
    std::vector<std::unique_ptr<CmHost>> hosts_;
    std::vector<std::unique_ptr<CmProgram>> programs_;
};

void CmRun::draw_faults() {
    Faults faults;
    faults.delay = random_.pick({5, 50, 1000, 100'000}) * kMicrosecond;
    faults.jitter = faults.delay / 2;
    calm_ = random_.one_in(4);
    if (!calm_) {
        faults.drop = random_.pick({0u, 20'000u, 100'000u, 300'000u});
        faults.duplicate = random_.pick({0u, 100'000u, 300'000u});
        faults.reorder = random_.pick({0u, 100'000u});
        faults.corrupt = random_.pick({0u, 0u, 50'000u});
        // Less than the packet life time that rdma_cm assumes (1.07 s): later ones are met by timewait's end.
        faults.reorder_delay = random_.pick({1, 100, 1000}) * kMillisecond;
    }
    for (unsigned a = 0; a < hosts_.size(); a++)
        for (unsigned b = 0; b < hosts_.size(); b++) world_.network.faults(a, b) = faults;
    if (calm_ || !random_.one_in(4)) return;
    const Time at = world_.now() + random_.between(0, 20) * kSecond;
    world_.network.partition(0, 1, at, at + random_.pick({1, 30, 300}) * kSecond);
}

CmHabits CmRun::draw_habits() {
    CmHabits habits;
    habits.gentle = random_.one_in(3);
    habits.longest_answer = random_.pick({1, 1000, 10'000, 150'000}) * kMillisecond;
    if (habits.gentle) return habits;
    habits.refuse = random_.pick({0u, 200'000u});
    habits.destroy = random_.pick({0u, 100'000u, 400'000u});
    habits.die = random_.pick({0u, 200'000u});
    return habits;
}

void CmRun::build() {
    const unsigned count = random_.one_in(3) ? 3 : 2;
    for (unsigned i = 0; i < count; i++) world_.network.add_host();
    for (unsigned i = 0; i < count; i++)
        hosts_.push_back(std::make_unique<CmHost>(world_, i, random_.next()));
    draw_faults();
    const CmHabits habits = draw_habits();
    const bool ipv6 = random_.one_in(2);
    for (auto& host : hosts_) {
        for (unsigned p = 0; p < 2; p++) {
            programs_.push_back(
                std::make_unique<CmProgram>(world_, registry_, *host, 1 + p, habits, random_.next()));
            CmProgram& program = *programs_.back();
            if (host->number() == 0 || random_.one_in(2)) {
                const auto port = static_cast<std::uint16_t>(kFirstPort + random_.below(3));
                const int backlog = random_.one_in(4) ? 1 : 100;
                program.listen(cm::PortSpace::tcp, port, backlog, random_.one_in(2), ipv6);
                if (random_.one_in(2))
                    program.listen(cm::PortSpace::udp, port, backlog, random_.one_in(2), ipv6);
            }
            for (std::uint64_t n = random_.below(5); n > 0; n--) {
                CmHost& to = *hosts_[random_.below(hosts_.size())];
                cm::Endpoint at = to.address(ipv6, static_cast<std::uint16_t>(kFirstPort + random_.below(3)));
                if (random_.one_in(40)) at.address.bytes[15] = 200;  // nobody
                program.connect_at(world_.now() + random_.between(0, 10'000) * kMillisecond, at,
                                   random_.one_in(4) ? cm::PortSpace::udp : cm::PortSpace::tcp);
            }
        }
    }
    if (!calm_ && random_.one_in(12))
        world_.scheduler.after(random_.between(0, 20) * kSecond, [this] { hosts_[1]->die(); });
    for (auto& host : hosts_) host->called();
}

// False if something is wrong.
bool CmRun::pass_until(Time time) {
    while (world_.verdict.good() && !world_.scheduler.empty() && world_.scheduler.next() <= time) {
        if (world_.scheduler.events() > kMostEventsOfCm)
            world_.verdict.violation(world_.now(), "the connection managers do not come to rest");
        world_.scheduler.step();
    }
    return world_.verdict.good();
}

// Everything is destroyed and every timer has run out: nothing may be left.
void CmRun::judge_managers() {
    for (auto& host : hosts_) {
        if (host->dead()) continue;
        const cm::Manager::Counts counts = host->manager().counts();
        if (counts.ids || counts.connections || counts.listeners || counts.timewait)
            world_.verdict.violation(
                world_.now(), "host %u keeps %zu ids, %zu connections, %zu listeners, %zu in timewait",
                host->number(), counts.ids, counts.connections, counts.listeners, counts.timewait);
        if (host->manager().next_deadline() != kNever)
            world_.verdict.violation(world_.now(), "host %u waits for something, but all is over",
                                     host->number());
        for (std::uint16_t port = kFirstPort; port < kFirstPort + 3; port++) {
            cm::IdNumber id;
            cm::Endpoint at;
            at.family = 2;  // AF_INET
            at.address = Gid::from_ipv4(0);
            at.port = port;
            if (host->manager().create_id(1, cm::PortSpace::tcp, cm::QpType::rc, 0, id) ||
                host->manager().bind(id, at, true))
                world_.verdict.violation(world_.now(), "host %u: port %u is still taken", host->number(),
                                         port);
        }
    }
}

Outcome CmRun::run() {
    coverage_observer = this;
    const Time start = world_.now();
    if (pass_until(start + kProgramsLive)) {
        for (auto& program : programs_) program->finish();
        if (pass_until(start + kProgramsLive + kAftermath)) {
            registry_.judge(calm_);
            judge_managers();
        }
    }
    coverage_observer = nullptr;
    Outcome outcome;
    outcome.violation = world_.verdict.text();
    world_.coverage.events += world_.scheduler.events();
    world_.coverage.runs++;
    outcome.coverage = world_.coverage;
    return outcome;
}

}  // namespace

Outcome run_connection_managers(std::uint64_t seed) { return CmRun(seed).run(); }

}  // namespace verbena::sim
