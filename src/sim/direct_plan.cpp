// Draws what a seed's processes do without packets (sim_direct.h), if they are of one host, and sometimes, in
// place of what they would do, messages so large that they are written into receives (shown_receives.h) and
// executed in parts.
#include <algorithm>

#include "memory/access.h"
#include "sim/plan.h"
#include "sim/random.h"
#include "transport/direct_access.h"
#include "transport/shown_receives.h"

namespace verbena::sim {
namespace {

using transport::Operation;
using transport::ShownReceives;

constexpr std::uint32_t kTarget = 2'300'000;   // bytes: more than two parts
constexpr std::uint32_t kLargest = 1'200'000;  // of a SEND
constexpr std::uint32_t kMtu = 4096;
constexpr std::uint32_t kPart = 1 << 20;  // what both copy together, at a time

enum class Kinds : std::uint8_t { sends, one_sided, all };

Op draw_large_op(Random& random, Kinds kinds) {
    Op op;
    op.key = random.next();
    op.flags = random.one_in(4) ? 0 : transport::kSignaled;
    op.sge_count = static_cast<std::uint32_t>(random.between(1, 2));
    const std::int64_t kind =
        random.between(kinds == Kinds::one_sided ? 13 : 0, kinds == Kinds::sends ? 11 : 23);
    if (kind < 11) {
        op.operation = random.pick({Operation::send, Operation::send, Operation::send_with_immediate});
        op.length = random.pick({ShownReceives::kFrom, ShownReceives::kFrom + 1, ShownReceives::kFrom + 5000,
                                 ShownReceives::kFrom, kLargest});
    } else if (kind < 13) {
        op.operation = Operation::send;
        op.length = random.pick({100u, 20'000u, ShownReceives::kFrom - 1});
    } else {
        op.operation = kind < 18 ? Operation::rdma_read : Operation::rdma_write;
        const std::uint32_t most = random.pick({30'000u, kTarget});
        op.length = random.pick({static_cast<std::uint32_t>(random.below(most)) + 1, transport::kHalved,
                                 transport::kHalved + 1, 2 * transport::kHalved + 5000, kPart, kPart + 1,
                                 kPart + kMtu, kPart + 3 * kMtu});
        op.remote_offset = static_cast<std::uint32_t>(random.below(kTarget - op.length + 1));
    }
    op.immediate = random.next32();
    return op;
}

void draw_large_receives(Random& random, EndpointPlan& to, const std::vector<Op>& ops) {
    to.receives.clear();
    to.buffers = random.pick({1u, 1u, 2u, 3u});
    const bool in_pieces = random.one_in(8);
    for (const Op& op : ops) {
        if (!op.consumes_receive()) continue;
        ReceivePlan receive;
        receive.capacity = kLargest + 50;
        receive.sge_count = in_pieces && to.receives.size() % to.buffers == 0 ? 2 : 1;
        receive.wr_id = random.next();
        to.receives.push_back(receive);
    }
}

// One connection, in one direction.
void draw_large(Random& random, Plan& plan) {
    plan.endpoints.resize(2);
    EndpointPlan &from = plan.endpoints[0], &to = plan.endpoints[1];
    const auto reads = random.pick<std::uint8_t>({1, 4, 4});
    for (EndpointPlan* e : {&from, &to}) {
        e->ops.clear();
        e->receives.clear();
        e->drains = false;
        e->capabilities = {16, 16, 2, 2, 0};
        e->receive_depth = 16;
        e->receive_delay = random.one_in(3) ? kMillisecond : 0;
        e->attributes.path_mtu = kMtu;
        e->attributes.access = memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic;
        e->attributes.retry_count = e->attributes.rnr_retry = 7;
        e->attributes.max_rd_atomic = e->attributes.max_destination_rd_atomic = reads;
    }
    to.target_size = kTarget & ~7u;
    from.think = random.pick({0, 0, 100}) * kMicrosecond;
    from.batch = random.pick({1u, 4u, 16u});
    const Kinds kinds = random.pick({Kinds::sends, Kinds::one_sided, Kinds::all});
    for (std::int64_t n = random.between(4, 24); n > 0; n--) from.ops.push_back(draw_large_op(random, kinds));
    from.ops.back().flags |= transport::kSignaled;
    draw_large_receives(random, to, from.ops);
    if (random.one_in(6)) {
        const std::size_t at = random.below(from.ops.size());
        std::size_t receive = 0;
        for (std::size_t i = 0; i < at; i++) receive += from.ops[i].consumes_receive();
        if (from.ops[at].is_send())
            from.ops[at].mistake = to.receives[receive].mistake =
                random.pick({Mistake::short_receive, Mistake::bad_receive_lkey});
    }
    for (auto& [way, faults] : plan.faults) {
        faults.bytes_per_second = 0;  // what is fetched or placed does not travel
        faults.drop = std::min(faults.drop, 20'000u);
    }
}

}  // namespace

DirectPlan draw_direct(Random& random) {
    DirectPlan direct;
    direct.there = true;
    direct.declines = random.pick({0u, 0u, 100'000u, 500'000u});
    direct.not_yet = random.pick({0u, 0u, 100'000u});
    direct.by_packets = random.pick({0u, 300'000u, 1'000'000u});
    direct.fetched = random.pick({0u, 300'000u, 1'000'000u});
    return direct;
}

void draw_direct(std::uint64_t seed, Plan& plan) {
    Random random(mix(seed) ^ 0x646972656374);
    if (plan.processes[0].largest_payload == 0 || random.one_in(4)) return;
    for (ProcessPlan& process : plan.processes)
        if (!random.one_in(8)) process.direct = draw_direct(random);
    if (random.one_in(6)) {  // it is written to all the same, and waited for
        const auto process = static_cast<unsigned>(random.below(plan.processes.size()));
        const Time at = random.between(0, 2 * kMillisecond);
        plan.pauses.push_back({process, {at, at + random.pick({100, 300, 1000, 3000}) * kMillisecond}});
    }
    if (!random.one_in(3)) return;
    draw_large(random, plan);
    for (ProcessPlan& process : plan.processes) {
        process.direct.there = true;
        process.direct.declines = random.pick({0u, 50'000u, 300'000u});
        process.direct.fetched = 1'000'000;
        process.direct.by_packets = random.pick({0u, 900'000u, 1'000'000u});
        process.direct.halved = random.pick({0u, 900'000u, 1'000'000u});
    }
}

}  // namespace verbena::sim
