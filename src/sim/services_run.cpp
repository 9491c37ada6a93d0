#include "sim/services_run.h"

#include "sim/services_plan.h"
#include "sim/window_script.h"
#include "wire/opcode.h"

namespace verbena::sim {
namespace {

using transport::Service;

constexpr Duration kLongestServices = 120 * kSecond;
constexpr std::uint64_t kMostEventsOfServices = 3'000'000;
constexpr Duration kLinger = 50 * kMillisecond;  // what is still on its way arrives
constexpr std::size_t kQueuesOfXrc = 3;          // two of the streams' domain, one of another

class ServicesRun {
   public:
    explicit ServicesRun(std::uint64_t seed)
        : plan_(draw_services(seed)), random_(mix(seed) ^ 0x73747265), world_(seed) {
        build();
    }
    Outcome run();

   private:
    void build();
    void add_pools();
    void add_streams();
    void schedule_members();
    Pool& pool(std::size_t station, const Pool::Plan& plan);
    std::size_t deliver(Station& station, const Delivery& delivery);
    void watch_order(const wire::Packet& packet);
    bool over() const;
    bool go_on(Time until);
    void judge();

    const ServicesPlan plan_;
    Random random_;
    World world_;
    std::vector<std::unique_ptr<Station>> stations_;
    std::vector<std::unique_ptr<Pool>> pools_;
    std::vector<Pool*> shared_;            // by station
    std::vector<std::vector<Pool*>> xrc_;  // by station
    std::vector<std::unique_ptr<Stream>> streams_;
    std::vector<std::unique_ptr<WindowScript>> windows_;
    std::map<std::uint32_t, std::size_t> by_receiver_;  // crowd: who has not sent anything yet
    std::size_t first_packets_ = 0;                     // crowd: the last that began
    const Gid group_ = Gid::from_ipv4(0xe8010203);
};

void ServicesRun::build() {
    for (unsigned i = 0; i < plan_.hosts; i++) world_.network.add_host();
    for (unsigned a = 0; a < plan_.hosts; a++)
        for (unsigned b = 0; b < plan_.hosts; b++) world_.network.faults(a, b) = plan_.faults;
    std::uint32_t first_qp = 4096;
    for (const ProcessPlan& plan : plan_.stations) {
        stations_.push_back(std::make_unique<Station>(world_, plan, first_qp, random_.next()));
        first_qp += 4096;
    }
    add_pools();
    add_streams();
    for (const auto& [from, to] : plan_.windows)
        windows_.push_back(std::make_unique<WindowScript>(*stations_[from], *stations_[to], random_.next()));
    for (auto& station : stations_) station->allocate();
    for (Pool* p : shared_) p->open(nullptr);
    for (auto& queues : xrc_)
        for (Pool* p : queues) p->open(nullptr);
    for (auto& stream : streams_) stream->create();
    if (!world_.verdict.good()) return;
    for (std::size_t i = 0, own = shared_.size() + kQueuesOfXrc * xrc_.size(); i < streams_.size(); i++)
        if (plan_.streams[i].service != Service::xrc_send && !plan_.streams[i].ends_shared)
            pools_[own++]->open(streams_[i]->receiver());
    for (std::size_t i = 0; i < streams_.size(); i++) {
        streams_[i]->connect();
        by_receiver_[streams_[i]->receiver_number()] = i;
    }
    for (auto& window : windows_) window->create();
    schedule_members();
    if (plan_.crowd) world_.watch.observer = [this](const wire::Packet& p) { watch_order(p); };
}

Pool& ServicesRun::pool(std::size_t station, const Pool::Plan& plan) {
    Station& there = *stations_[station];
    pools_.push_back(std::make_unique<Pool>(
        there, plan, [this, &there](const Delivery& delivery) { return deliver(there, delivery); }));
    return *pools_.back();
}

void ServicesRun::add_pools() {
    for (std::size_t i = 0; i < stations_.size(); i++) shared_.push_back(&pool(i, plan_.shared[i]));
    for (std::size_t i = 0; i < stations_.size(); i++) {
        xrc_.emplace_back();
        for (std::size_t q = 0; q < kQueuesOfXrc; q++) {
            Pool::Plan plan = plan_.shared[i];
            plan.xrc_domain = q + 1 < kQueuesOfXrc ? 1 : 2;
            xrc_.back().push_back(&pool(i, plan));
        }
    }
}

void ServicesRun::add_streams() {
    for (std::size_t i = 0; i < plan_.streams.size(); i++) {
        const StreamPlan& plan = plan_.streams[i];
        const auto [from, to] = plan_.ends[i];
        streams_.push_back(std::make_unique<Stream>(*stations_[from], *stations_[to], plan, random_.next()));
        std::vector<Pool*> queues = xrc_[to];
        if (plan.service != Service::xrc_send) {
            Pool::Plan own{.capacity = kReceiveCapacity};
            own.depth =
                plan_.lossless && !plan_.crowd ? 250 : static_cast<std::uint32_t>(random_.between(1, 16));
            own.slow = !plan_.lossless && random_.one_in(3);
            queues = {plan.ends_shared ? shared_[to] : &pool(to, own)};
        }
        streams_.back()->use(std::move(queues));
        streams_.back()->use_group(group_, nullptr);
    }
    for (const auto& member : plan_.members)
        if (member.sender_too)
            streams_[member.stream]->use_group(group_, shared_[plan_.ends[member.stream].from]);
}

void ServicesRun::schedule_members() {
    for (const auto& member : plan_.members) {
        Stream& stream = *streams_[member.stream];
        if (member.joins == 0)
            stream.join();
        else
            world_.scheduler.after(member.joins, [&stream] { stream.join(); });
        if (member.leaves != 0) world_.scheduler.after(member.leaves, [&stream] { stream.leave(); });
    }
}

// Whose message it is says its first word, or the immediate of a WRITE.
std::size_t ServicesRun::deliver(Station& station, const Delivery& d) {
    const completion::Completion& c = d.completion;
    std::uint64_t word = c.immediate;
    if (c.opcode == completion::Opcode::receive)
        std::memcpy(&word, d.buffer.data() + (c.flags & completion::kHasGrh ? 40 : 0), sizeof word);
    Stream* sender = nullptr;
    std::uint32_t index = 0;
    for (auto& stream : streams_) {
        bool found = false;
        index = stream->index_of(word, found);
        if (!found) continue;
        sender = stream.get();
        break;
    }
    if (!sender) {
        world_.verdict.violation(world_.now(), "QP 0x%06x receives what nobody has sent", c.qp_number);
        return c.byte_length;
    }
    if (sender->plan().messages[index].to_group) {
        const Stream::Membership* membership = nullptr;
        for (auto& stream : streams_)
            if (const auto* found = stream->membership(c.qp_number)) membership = found;
        const Time at = static_cast<Time>(c.timestamp);
        if (!membership || at < membership->from || at > membership->until)
            world_.verdict.violation(
                world_.now(), "QP 0x%06x is not in the group of the message that it gets", c.qp_number);
    }
    return sender->delivered(index, station, c.qp_number, d);
}

// transport/flow.h: who waits longest goes first. The streams have posted in the order of their numbers.
void ServicesRun::watch_order(const wire::Packet& packet) {
    if (!wire::info(packet.headers.bth.opcode).request) return;
    const auto found = by_receiver_.find(packet.headers.bth.destination_qp);
    if (found == by_receiver_.end()) return;
    if (found->second < first_packets_)
        world_.verdict.violation(world_.now(), "stream %zu begins after stream %zu, which has waited less",
                                 found->second, first_packets_);
    first_packets_ = found->second;
    by_receiver_.erase(found);
}

bool ServicesRun::over() const {
    for (const auto& stream : streams_)
        if (!stream->over()) return false;
    for (const auto& window : windows_)
        if (!window->over()) return false;
    return true;
}

// False: the run is over or has failed.
bool ServicesRun::go_on(Time until) {
    if (!world_.verdict.good()) return false;
    if (world_.scheduler.empty() || world_.scheduler.next() > until) return false;
    if (world_.scheduler.events() > kMostEventsOfServices) {
        world_.verdict.violation(world_.now(), "much has happened, and it does not end");
        return false;
    }
    world_.scheduler.step();
    return world_.verdict.good();
}

Outcome ServicesRun::run() {
    const Time start = world_.now();
    while (!over() && go_on(start + kLongestServices)) {
    }
    if (world_.verdict.good() && !over()) world_.verdict.violation(world_.now(), "stuck; see below");
    const Time end = world_.now() + kLinger;
    while (go_on(end)) {
    }
    if (world_.verdict.good()) judge();
    Outcome outcome;
    outcome.violation = world_.verdict.text();
    if (!world_.verdict.good()) {
        for (const auto& stream : streams_) outcome.details += "  " + stream->describe() + "\n";
        for (const auto& window : windows_) outcome.details += "  " + window->describe() + "\n";
    }
    world_.coverage.events += world_.scheduler.events();
    world_.coverage.runs++;
    outcome.coverage = world_.coverage;
    return outcome;
}

void ServicesRun::judge() {
    for (auto& p : pools_) p->stop();
    for (auto& stream : streams_) stream->end();
    for (auto& station : stations_)
        while (station->turn()) {
        }
    for (auto& stream : streams_) stream->settle();
    // Who was in the group from the start to the end got everything.
    for (const auto& member : plan_.members) {
        if (!plan_.lossless || member.joins != 0 || member.leaves != 0) continue;
        for (auto& sender : streams_)
            if (sender->plan().service == Service::ud)
                sender->settle_member(streams_[member.stream]->receiver_number());
    }
    for (auto& stream : streams_) stream->destroy();
    for (auto& window : windows_) window->end();
    for (auto& station : stations_)
        while (station->turn()) {
        }
    for (auto& p : pools_) p->settle();
    for (std::size_t i = 0; i < stations_.size() && world_.verdict.good(); i++) {
        const Arena& arena = stations_[i]->arena();
        if (const std::uint32_t at = arena.first_difference(); at != arena.size())
            world_.verdict.violation(world_.now(), "station %zu: byte %u of its memory is not as expected", i,
                                     at);
    }
}

}  // namespace

Outcome run_services(std::uint64_t seed) { return ServicesRun(seed).run(); }

}  // namespace verbena::sim
