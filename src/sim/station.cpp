#include "sim/station.h"

#include <utility>

#include "base/reason.h"

namespace verbena::sim {
namespace {

using namespace transport;

constexpr std::uint32_t kCompletions = 8192;

}  // namespace

Station::Station(World& world, const ProcessPlan& plan, std::uint32_t first_qp, std::uint64_t seed)
    : world_(world),
      process_(world, plan, first_qp, seed),
      random_(mix(seed)),
      gid_(world.network.gid(plan.host, false)),
      cq_(world, kCompletions, process_.plan(), mix(seed + 1)),
      xrc_cq_(world, kCompletions, process_.plan(), mix(seed + 2)) {
    process_.add(*this);
}

void Station::allocate() {
    arena_.allocate(random_.next());
    if (adapter().regions().add(kStationPd, arena_.address(0), arena_.size(), address(0), kEverything, keys_))
        world_.verdict.violation(world_.now(), "registration failed: %s", last_reason());
}

QueuePair* Station::create(QpSetup setup, std::uint32_t qkey) {
    setup.pd = kStationPd;
    setup.send_cq = setup.receive_cq = &cq_.queue();
    setup.listener = this;
    setup.signal_all = true;
    QueuePair* qp = adapter().create_qp(setup, world_.now());
    if (!qp) {
        world_.verdict.violation(world_.now(), "create_qp failed: %s", last_reason());
        return nullptr;
    }
    destroyed_.erase(qp->number());
    Attributes attributes;
    attributes.state = QpState::init;
    attributes.port = 1;
    attributes.access = kEverything & ~memory::kLocalWrite;
    attributes.qkey = qkey;
    const std::uint32_t mask = setup.service == Service::ud ? kAttrQkey : kAttrAccessFlags;
    if (adapter().modify(*qp, attributes, kAttrState | kAttrPkeyIndex | kAttrPort | mask, world_.now()))
        world_.verdict.violation(world_.now(), "modify to INIT failed: %s", last_reason());
    return qp;
}

void Station::connect(QueuePair& qp, const Gid& peer, std::uint32_t peer_number, std::uint32_t mtu,
                      std::uint32_t sq_psn, std::uint32_t rq_psn) {
    Attributes a;
    a.path.source = gid_;
    a.path.destination = peer;
    a.path.udp_source_port = wire::udp_source_port(wire::flow_label_from_qpns(qp.number(), peer_number));
    a.destination_qp = peer_number;
    a.path_mtu = mtu;
    a.sq_psn = sq_psn;
    a.rq_psn = rq_psn;
    a.max_rd_atomic = a.max_destination_rd_atomic = 4;
    a.min_rnr_timer = 5;
    a.timeout = 14;
    a.retry_count = a.rnr_retry = 7;
    a.state = QpState::rtr;
    const Service service = qp.setup().service;
    std::uint32_t mask = 0;
    if (service != Service::ud) mask = kAttrAv | kAttrPathMtu | kAttrDestQpn | kAttrRqPsn;
    if (service == Service::rc || service == Service::xrc_receive)
        mask |= kAttrMaxDestRdAtomic | kAttrMinRnrTimer;
    int error = adapter().modify(qp, a, kAttrState | mask, world_.now());
    a.state = QpState::rts;
    mask = kAttrSqPsn;
    if (service == Service::rc || service == Service::xrc_send)
        mask |= kAttrTimeout | kAttrRetryCount | kAttrRnrRetry | kAttrMaxQpRdAtomic;
    if (service == Service::xrc_receive) mask |= kAttrTimeout;
    if (!error) error = adapter().modify(qp, a, kAttrState | mask, world_.now());
    if (error) world_.verdict.violation(world_.now(), "connecting failed: %s", last_reason());
}

void Station::fail(QueuePair& qp) {
    Attributes attributes;
    attributes.state = QpState::error;
    if (adapter().modify(qp, attributes, kAttrState, world_.now()))
        world_.verdict.violation(world_.now(), "modify to ERR failed: %s", last_reason());
}

void Station::destroy(QueuePair*& qp) {
    const std::uint32_t number = qp->number();
    adapter().destroy_qp(std::exchange(qp, nullptr), world_.now());
    destroyed_[number] = world_.now();
}

void Station::post(QueuePair& qp, const SendRequest& request) {
    std::size_t index = 0;
    if (adapter().post_send(qp.number(), {&request, 1}, index, world_.now()))
        world_.verdict.violation(world_.now(), "post_send failed: %s", last_reason());
}

unsigned Station::last_wqe_events(std::uint32_t number) const {
    const auto found = last_wqe_.find(number);
    return found == last_wqe_.end() ? 0 : found->second;
}

bool Station::turn() {
    auto take_one = [this](const completion::Completion& c) { return take(c); };
    bool did = cq_.look(take_one, false);
    did |= xrc_cq_.look(take_one, false);
    for (Party* party : parties_) did |= party->turn();
    return did;
}

bool Station::take(const completion::Completion& c) {
    const auto gone = destroyed_.find(c.qp_number);
    if (gone != destroyed_.end() && static_cast<Time>(c.timestamp) > gone->second)
        world_.verdict.violation(world_.now(), "QP 0x%06x completes a request after its end", c.qp_number);
    const std::uint64_t party = c.wr_id >> 32;
    if (party < parties_.size())
        parties_[party]->completed(c);
    else
        world_.verdict.violation(world_.now(), "a completion of an unknown request, wr_id 0x%llx",
                                 static_cast<unsigned long long>(c.wr_id));
    return false;
}

void Station::qp_event(QueuePair& qp, QpEvent event) {
    world_.coverage.qp_events[static_cast<std::size_t>(event)]++;
    if (event == QpEvent::last_wqe_reached) last_wqe_[qp.number()]++;
    if (event == QpEvent::fatal)
        world_.verdict.violation(world_.now(), "QP 0x%06x reports a fatal error", qp.number());
}

}  // namespace verbena::sim
