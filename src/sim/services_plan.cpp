#include "sim/services_plan.h"

namespace verbena::sim {
namespace {

using namespace transport;

constexpr std::uint32_t kDatagram = 1024;  // the port's MTU
constexpr std::uint32_t kLongestWrite = 6000;

Faults draw_faults(Random& random) {
    Faults f;
    f.delay = random.between(5, 100) * kMicrosecond;
    f.jitter = random.between(0, 20) * kMicrosecond;
    if (random.one_in(2)) f.drop = random.pick({1'000u, 10'000u, 50'000u});
    if (random.one_in(3)) f.duplicate = random.pick({1'000u, 20'000u});
    if (random.one_in(3)) f.reorder = random.pick({1'000u, 20'000u});
    if (random.one_in(6)) f.corrupt = 5'000;
    f.reorder_delay = random.pick({50, 500, 4000}) * kMicrosecond;
    return f;
}

Operation draw_operation(Random& random, Service service) {
    using enum Operation;
    if (service == Service::ud) return random.pick({send, send, send_with_immediate});
    if (service == Service::uc)
        return random.pick({send, send, send_with_immediate, rdma_write, rdma_write_with_immediate});
    if (service == Service::xrc_send)
        return random.pick({send, send, send_with_immediate, send_with_invalidate, rdma_write,
                            rdma_write_with_immediate, rdma_read, compare_swap, fetch_add});
    return random.pick({send, send, send_with_immediate, send_with_invalidate, rdma_write,
                        rdma_write_with_immediate, rdma_read, fetch_add, flush, atomic_write});
}

Message draw_message(Random& random, Service service) {
    Message m;
    m.operation = draw_operation(random, service);
    switch (m.operation) {
        case Operation::compare_swap:
        case Operation::fetch_add:
        case Operation::atomic_write:
            m.length = 8;
            break;
        case Operation::rdma_write:
        case Operation::rdma_write_with_immediate:
        case Operation::rdma_read:
        case Operation::flush:
            m.length = static_cast<std::uint32_t>(random.between(1, kLongestWrite));
            break;
        default:  // at least the word that names it
            m.length = static_cast<std::uint32_t>(
                random.between(8, service == Service::ud || random.one_in(2) ? kDatagram : kLongestSend));
    }
    if (random.one_in(4)) m.flags |= kSolicited;
    if (random.one_in(8) && service != Service::ud) m.flags |= kFence;
    return m;
}

StreamPlan draw_stream(Random& random, const ServicesPlan& plan, Service service) {
    StreamPlan s;
    s.service = service;
    s.mtu = random.pick({256u, 512u, 1024u, 4096u});
    s.depth = static_cast<std::uint32_t>(random.between(1, 16));
    s.think = random.pick({0, 5, 50, 200}) * kMicrosecond;
    s.start = 1 * kSecond + random.between(0, 500) * kMicrosecond;
    s.ends_shared = !plan.lossless && random.one_in(2);
    s.faulty_order = plan.faults.reorder != 0;
    s.doubles = plan.faults.duplicate != 0;
    s.lossless = plan.lossless;
    const std::int64_t count = random.between(1, 30);
    for (std::int64_t i = 0; i < count; i++) {
        Message m = draw_message(random, service);
        m.queue = static_cast<unsigned>(random.below(2));
        m.forbidden = service == Service::ud && random.one_in(10);
        m.to_group = service == Service::ud && random.one_in(2);
        s.messages.push_back(m);
    }
    if (service == Service::xrc_send && random.one_in(3)) {
        Message m;
        m.operation = Operation::send;
        m.length = 100;
        m.queue = 2;  // of another domain
        m.forbidden = true;
        s.messages.push_back(m);
    }
    s.block_own = service == Service::ud && random.one_in(2);
    if (!plan.lossless && random.one_in(10)) s.abandoned_after = random.between(1, 3000) * kMicrosecond;
    return s;
}

// Queue pairs that all have much to send at one instant.
void draw_crowd(Random& random, ServicesPlan& plan) {
    const std::int64_t count = random.between(12, 60);
    for (std::int64_t i = 0; i < count; i++) {
        StreamPlan s;
        s.mtu = random.pick({1024u, 4096u});
        s.start = 1 * kSecond + 100 * kMicrosecond;
        for (std::int64_t m = random.between(1, 3); m > 0; m--) {
            Message message;
            message.operation = Operation::rdma_write;
            message.length = static_cast<std::uint32_t>(random.between(1, 20'000));
            s.messages.push_back(message);
        }
        Message last;
        last.length = 64;
        s.messages.push_back(last);
        if (random.one_in(10)) s.abandoned_after = random.between(1, 3000) * kMicrosecond;
        plan.ends.push_back({0, 1});
        plan.streams.push_back(std::move(s));
    }
    plan.stations[1].buffer = random.pick({60'000u, 212'992u, 400'000u});
}

}  // namespace

ServicesPlan draw_services(std::uint64_t seed) {
    Random random(mix(seed) ^ 0x736572766963);
    ServicesPlan plan;
    plan.hosts = static_cast<unsigned>(random.between(2, 3));
    plan.lossless = random.one_in(4);
    plan.crowd = random.one_in(8);
    if (!plan.lossless) plan.faults = draw_faults(random);
    const std::int64_t stations = random.between(2, 4);
    for (std::int64_t i = 0; i < stations; i++) {
        ProcessPlan p;
        p.host = static_cast<unsigned>(i < 2 ? i : static_cast<std::int64_t>(random.below(plan.hosts)));
        p.bursts = random.one_in(2);
        p.latency = random.between(1, 50) * kMicrosecond;
        p.idle_chance = random.pick({0u, 500'000u, 1'000'000u});
        p.poll_at_once = static_cast<std::uint32_t>(random.between(1, 16));
        p.buffer = plan.lossless ? 64'000'000 : random.pick({100'000u, 212'992u, 1'000'000u});
        p.most_queue_pairs = 256;
        plan.stations.push_back(p);
        Pool::Plan shared{.shared = true, .capacity = kReceiveCapacity};
        // A queue pair of UC may keep a request for long, when its message got lost: more than there are of
        // them.
        shared.depth = static_cast<std::uint32_t>(plan.lossless ? 250 : random.between(9, 24));
        shared.limit = random.one_in(2) ? (shared.depth + 1) / 2 : 0;
        shared.slow = !plan.lossless && random.one_in(2);
        plan.shared.push_back(shared);
    }
    if (plan.crowd) {
        draw_crowd(random, plan);
        return plan;
    }
    const std::int64_t streams = random.between(2, 8);
    for (std::int64_t i = 0; i < streams; i++) {
        const Service service =
            random.pick({Service::rc, Service::uc, Service::uc, Service::ud, Service::ud, Service::xrc_send});
        plan.ends.push_back({static_cast<unsigned>(random.below(plan.stations.size())),
                             static_cast<unsigned>(random.below(plan.stations.size()))});
        plan.streams.push_back(draw_stream(random, plan, service));
        if (service != Service::ud || random.one_in(4)) continue;
        ServicesPlan::Membership member;
        member.stream = static_cast<unsigned>(i);
        member.joins = random.one_in(2) ? 0 : random.between(0, 1000) * kMicrosecond;
        member.leaves = random.one_in(2) ? 0 : member.joins + random.between(1, 2000) * kMicrosecond;
        member.sender_too = random.one_in(2);
        plan.members.push_back(member);
    }
    for (std::uint64_t i = random.below(3); i > 0; i--)
        plan.windows.push_back({static_cast<unsigned>(random.below(plan.stations.size())),
                                static_cast<unsigned>(random.below(plan.stations.size()))});
    Random local(mix(seed) ^ 0x6c6f63616c);
    if (local.one_in(3))
        for (ProcessPlan& p : plan.stations) {
            p.largest_payload = local.pick({4u, 16u, 48u}) * 1024;
            if (!local.one_in(6)) p.direct = draw_direct(local);
        }
    return plan;
}

}  // namespace verbena::sim
