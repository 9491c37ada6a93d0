// Draws a plan from a seed. Most plans are small, so that thousands run in a minute; the weights favour what
// has broken reliable transports before: sizes around the path MTU, PSNs near their wrap, receives that come
// late, timers that fire a few times but not too often.
#include <algorithm>

#include "memory/access.h"
#include "sim/plan.h"
#include "sim/random.h"
#include "wire/psn.h"

namespace verbena::sim {
namespace {

using transport::Operation;

// What a whole run is about.
struct Mood {
    std::uint32_t stream_bytes = 48 * 1024;  // per direction
    bool mistakes = false;
    bool rnr = false;      // receives come late
    bool blips = false;    // short partitions
    bool patient = false;  // timers and counters so generous that nothing may fail
};

Faults draw_faults(Random& random, const Mood& mood) {
    Faults f;
    f.delay = random.pick({1, 5, 20, 50, 200, 2000}) * kMicrosecond;
    f.jitter = random.one_in(2) ? 0 : f.delay / 2;
    switch (random.below(6)) {
        case 0:
            break;
        case 1:
            f.drop = random.pick({1'000u, 10'000u, 50'000u});
            break;
        case 2:
            f.drop = random.pick({20'000u, 100'000u, 200'000u});
            break;
        case 3:
            f.reorder = random.pick({10'000u, 100'000u, 300'000u});
            break;
        case 4:
            f.duplicate = random.pick({10'000u, 100'000u, 300'000u});
            break;
        case 5:
            f.drop = random.pick({0u, 5'000u, 30'000u});
            f.duplicate = random.pick({0u, 30'000u, 100'000u});
            f.reorder = random.pick({0u, 30'000u, 100'000u});
            f.corrupt = random.pick({0u, 10'000u, 50'000u});
            break;
    }
    f.reorder_delay = random.pick({10, 100, 1000, 20'000}) * kMicrosecond;
    if (random.one_in(8)) {
        f.bytes_per_second = random.pick({10ull, 100ull, 1000ull}) * 1'000'000;
        f.queue_limit = random.pick({1, 5, 20}) * kMillisecond;
    }
    if (mood.patient) f.drop = std::min(f.drop, 100'000u);
    return f;
}

std::uint32_t draw_length(Random& random, std::uint32_t mtu, std::uint32_t largest) {
    std::uint32_t length = 0;
    switch (random.below(12)) {
        case 0:
            length = 0;
            break;
        case 1:
            length = 1;
            break;
        case 2:
            length = mtu - 1;
            break;
        case 3:
            length = mtu;
            break;
        case 4:
            length = mtu + 1;
            break;
        case 5:
            length = 2 * mtu + static_cast<std::uint32_t>(random.between(-1, 1));
            break;
        case 6:
            length = static_cast<std::uint32_t>(random.below(64));
            break;
        case 7:
            length = 8;
            break;
        case 8:
            length = static_cast<std::uint32_t>(random.below(mtu * 3));
            break;
        case 9:
            length = static_cast<std::uint32_t>(random.below(20) * mtu);
            break;
        default:
            length = static_cast<std::uint32_t>(random.below(largest + 1));
            break;
    }
    return std::min(length, largest);
}

Op draw_op(Random& random, const EndpointPlan& self, std::uint32_t target_size, std::uint32_t largest) {
    static constexpr Operation kKinds[] = {Operation::send,
                                           Operation::send,
                                           Operation::send_with_immediate,
                                           Operation::send_with_invalidate,
                                           Operation::rdma_write,
                                           Operation::rdma_write,
                                           Operation::rdma_write_with_immediate,
                                           Operation::rdma_read,
                                           Operation::rdma_read,
                                           Operation::compare_swap,
                                           Operation::fetch_add};
    Op op;
    op.operation = kKinds[random.below(std::size(kKinds))];
    op.key = random.next();
    op.immediate = random.next32();
    if (random.one_in(3)) op.flags |= transport::kSolicited;
    if (random.one_in(10)) op.flags |= transport::kFence;
    if (!random.one_in(3)) op.flags |= transport::kSignaled;
    if (op.is_atomic()) {
        op.length = 8;
        op.compare_add = random.one_in(4) ? random.below(4) : random.next();
        op.swap = random.next();
        if (random.one_in(3)) op.shared_word = static_cast<std::uint8_t>(1 + random.below(2));
        op.remote_offset = static_cast<std::uint32_t>(random.below(target_size / 8)) * 8;
        return op;
    }
    if (op.is_send())
        op.length = draw_length(random, self.attributes.path_mtu, largest);
    else
        op.length = draw_length(random, self.attributes.path_mtu, std::min(largest, target_size));
    op.sge_count = static_cast<std::uint32_t>(
        random.between(op.length == 0 ? 0 : 1, std::min<std::int64_t>(self.capabilities.max_send_sge, 4)));
    if (!op.is_send())
        op.remote_offset = static_cast<std::uint32_t>(random.below(target_size - op.length + 1));
    if (!op.is_read() && op.length <= self.capabilities.max_inline_data && random.one_in(2))
        op.flags |= transport::kInline;
    return op;
}

// A program that never asks for a completion would never learn that its send queue has room.
void make_observable(EndpointPlan& plan) {
    const std::uint32_t every = std::max(plan.capabilities.max_send_wr / 2, 1u);
    std::uint32_t silent = 0;
    for (std::size_t i = 0; i < plan.ops.size(); i++) {
        Op& op = plan.ops[i];
        if (++silent >= every || i + 1 == plan.ops.size()) op.flags |= transport::kSignaled;
        if (op.flags & transport::kSignaled) silent = 0;
    }
}

void draw_ops(Random& random, EndpointPlan& self, std::uint32_t peer_target, const Mood& mood) {
    const std::uint32_t largest = mood.stream_bytes / 2;
    std::uint32_t bytes = 0;
    const std::uint64_t count = random.one_in(12) ? 0 : 1 + random.below(random.one_in(4) ? 60 : 16);
    while (self.ops.size() < count && bytes < mood.stream_bytes) {
        self.ops.push_back(draw_op(random, self, peer_target, largest));
        bytes += self.ops.back().length;
        // Who reads and then overwrites depends on the fence.
        const Op& last = self.ops.back();
        if (last.is_read() && last.length > 0 && random.one_in(2)) {
            Op over = last;
            over.operation = Operation::rdma_write;
            over.key = random.next();
            over.flags = transport::kSignaled | (random.one_in(4) ? 0 : transport::kFence);
            self.ops.push_back(over);
        }
    }
    make_observable(self);
}

// The receives that the peer's requests will consume, in order, and some that stay over.
void draw_receives(Random& random, EndpointPlan& self, const std::vector<Op>& peer_ops) {
    auto add = [&](std::uint32_t capacity, std::uint32_t least_sges) {
        ReceivePlan receive;
        receive.capacity = capacity;
        receive.sge_count = static_cast<std::uint32_t>(
            random.between(least_sges, std::min<std::int64_t>(self.capabilities.max_receive_sge, 4)));
        receive.wr_id = random.next();
        self.receives.push_back(receive);
    };
    for (const Op& op : peer_ops) {
        if (!op.consumes_receive()) continue;
        const std::uint32_t needed = op.is_send() ? op.length : 0;
        const auto capacity = needed + (random.one_in(2) ? 0 : static_cast<std::uint32_t>(random.below(100)));
        add(capacity, capacity == 0 ? 0 : 1);
    }
    for (std::uint64_t n = random.below(4); n > 0; n--) add(16, 1);
}

EndpointPlan draw_endpoint(Random& random, const Mood& mood, std::uint32_t mtu) {
    EndpointPlan e;
    e.capabilities.max_send_wr = random.pick({1u, 2u, 4u, 16u, 32u});
    e.capabilities.max_receive_wr = random.pick({1u, 4u, 16u, 32u});
    e.capabilities.max_send_sge = random.pick({1u, 2u, 4u});
    e.capabilities.max_receive_sge = random.pick({1u, 2u, 4u});
    e.capabilities.max_inline_data = random.pick({0u, 16u, 64u, 256u});
    e.signal_all = random.one_in(4);
    e.one_cq = random.one_in(3);
    e.target_size =
        std::max<std::uint32_t>(64, static_cast<std::uint32_t>(random.below(mood.stream_bytes / 4)));
    e.target_size &= ~7u;
    e.iova_kind = static_cast<std::uint32_t>(random.below(3));

    transport::Attributes& a = e.attributes;
    a.path_mtu = mtu;
    a.sq_psn = starting_psn(random);
    a.timeout = random.pick<std::uint8_t>({1, 12, 14, 14, 15, 16, 17});
    a.retry_count = mood.patient ? 7 : random.pick<std::uint8_t>({7, 7, 7, 5, 3, 2, 1, 0});
    a.rnr_retry = mood.patient ? 7 : random.pick<std::uint8_t>({7, 7, 7, 6, 3, 1, 0});
    a.min_rnr_timer = random.pick<std::uint8_t>({1, 2, 8, 12, 14, 18, 22, 0});
    a.max_rd_atomic = random.pick<std::uint8_t>({1, 1, 2, 4, 16});
    a.access = memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic;

    e.batch = random.pick({1u, 2u, 8u, 32u});
    e.think = random.one_in(2) ? 0 : random.pick({10, 100, 1000}) * kMicrosecond;
    e.receive_depth = std::min(random.pick({1u, 4u, 32u}), e.capabilities.max_receive_wr);
    if (mood.rnr) e.receive_delay = random.pick({100, 1000, 5000, 50'000}) * kMicrosecond;
    if (mood.blips && random.one_in(2)) {
        // Requests one after the other, so that one is under way in each partition.
        e.think = 60 * kMillisecond;
        e.batch = 1;
        a.retry_count = random.pick<std::uint8_t>({1, 2, 3});
        a.timeout = 14;
    }
    e.rts_delay = random.one_in(4) ? random.between(0, 2 * kMillisecond) : 0;
    return e;
}

void add_mistake(Random& random, EndpointPlan& self, EndpointPlan& peer) {
    if (self.ops.empty()) return;
    const std::size_t at = random.below(self.ops.size());
    Op& op = self.ops[at];
    std::size_t receive = 0;
    for (std::size_t i = 0; i < at; i++) receive += self.ops[i].consumes_receive();
    auto on_receive = [&](Mistake mistake) {
        op.mistake = mistake;
        peer.receives[receive].mistake = mistake;
    };
    const bool has_target = op.is_write() || op.is_read() || op.is_atomic();
    const bool has_buffer = op.length > 0 && op.sge_count > 0 && !(op.flags & transport::kInline);
    switch (random.below(4)) {
        case 0:
            if (has_buffer) op.mistake = Mistake::bad_lkey;
            return;
        case 1:
            if (!op.consumes_receive()) break;
            self.attributes.rnr_retry = random.pick<std::uint8_t>({0, 1, 2, 3});
            peer.attributes.min_rnr_timer = random.pick<std::uint8_t>({1, 12, 14});
            return on_receive(Mistake::missing_receive);
        case 2:
            if (op.operation == Operation::send_with_invalidate) {
                op.mistake = Mistake::stale_invalidate;
                return;
            }
            break;
        default:
            break;
    }
    if (has_target && op.length > 0) {
        op.shared_word = 0;
        op.mistake =
            random.pick({Mistake::bad_rkey, Mistake::wrong_pd, Mistake::out_of_bounds, Mistake::no_access});
        if (op.mistake == Mistake::out_of_bounds) {
            if (op.is_atomic())
                op.remote_offset = peer.target_size;
            else
                op.remote_offset =
                    peer.target_size - op.length + 1 + static_cast<std::uint32_t>(random.below(op.length));
        }
        if (op.is_atomic() && random.one_in(3)) {
            op.mistake = Mistake::misaligned;
            op.remote_offset = 8;
        } else if (random.one_in(6)) {
            op.mistake = Mistake::qp_no_access;
            const std::uint32_t right = op.is_write()  ? memory::kRemoteWrite
                                        : op.is_read() ? memory::kRemoteRead
                                                       : memory::kRemoteAtomic;
            peer.attributes.access &= ~right;
            // Every request of the kind fails now; the first one does it.
            for (Op& other : self.ops)
                if ((op.is_write() && other.is_write()) || (op.is_read() && other.is_read()) ||
                    (op.is_atomic() && other.is_atomic()))
                    if (other.mistake == Mistake::none) other.mistake = Mistake::qp_no_access;
        }
        return;
    }
    if (op.is_send() && op.length > 0)
        on_receive(random.one_in(2) && peer.receives[receive].capacity > 0 ? Mistake::bad_receive_lkey
                                                                           : Mistake::short_receive);
}

ProcessPlan draw_process(Random& random, unsigned host) {
    ProcessPlan p;
    p.host = host;
    p.bursts = !random.one_in(4);
    if (random.one_in(5)) p.buffer = random.pick({40'000u, 80'000u, 120'000u});
    p.latency = random.pick({0, 5, 20, 200}) * kMicrosecond;
    p.idle_chance = random.pick({0u, 300'000u, 1'000'000u});
    p.events = random.one_in(3);
    p.solicited_only = p.events && random.one_in(2);
    p.poll_at_once = random.pick({1u, 2u, 16u});
    return p;
}

}  // namespace

Plan draw_plan(std::uint64_t seed) {
    Random random(mix(seed) ^ 0x706c616e);
    Plan plan;
    Mood mood;
    const std::uint64_t kind = random.below(100);
    mood.stream_bytes = kind < 2 ? 2'000'000 : kind < 12 ? 256 * 1024 : kind < 60 ? 32 * 1024 : 8 * 1024;
    mood.mistakes = random.one_in(4);
    mood.rnr = random.one_in(4);
    mood.blips = random.one_in(10);
    mood.patient = random.one_in(3);

    plan.ipv6 = random.one_in(2);
    plan.hosts = random.one_in(3) ? 3 : 2;
    for (unsigned host = 0; host < plan.hosts; host++) plan.processes.push_back(draw_process(random, host));
    if (random.one_in(4)) plan.processes.push_back(draw_process(random, 0));
    Random local(mix(seed) ^ 0x6c6f6361);
    if (local.one_in(3))
        for (ProcessPlan& process : plan.processes)
            process.largest_payload = local.pick({4u, 16u, 16u, 48u}) * 1024;
    for (ProcessPlan& process : plan.processes) process.longest_run = local.pick({1u, 3u, 64u, 64u});
    for (ProcessPlan& process : plan.processes) process.rows = local.one_in(3);
    for (unsigned from = 0; from < plan.hosts; from++)
        for (unsigned to = 0; to < plan.hosts; to++) {
            Faults faults = draw_faults(random, mood);
            if (faults.drop || faults.corrupt || faults.queue_limit) plan.lossless = false;
            plan.faults.push_back({{from, to}, faults});
        }

    const std::uint64_t connections =
        kind < 12 || mood.blips ? 1 : 1 + random.below(random.one_in(4) ? 4 : 2);
    for (std::uint64_t i = 0; i < connections; i++) {
        const std::uint32_t mtu = random.pick({256u, 512u, 1024u, 1024u, 2048u, 4096u});
        EndpointPlan a = draw_endpoint(random, mood, mtu), b = draw_endpoint(random, mood, mtu);
        a.process = static_cast<unsigned>(random.below(plan.processes.size()));
        b.process = static_cast<unsigned>(random.below(plan.processes.size()));
        a.attributes.rq_psn = b.attributes.sq_psn;
        b.attributes.rq_psn = a.attributes.sq_psn;
        a.attributes.max_destination_rd_atomic = b.attributes.max_rd_atomic;
        b.attributes.max_destination_rd_atomic = a.attributes.max_rd_atomic;
        draw_ops(random, a, b.target_size, mood);
        draw_ops(random, b, a.target_size, mood);
        draw_receives(random, a, b.ops);
        draw_receives(random, b, a.ops);
        if (mood.mistakes) add_mistake(random, a, b);
        if (mood.mistakes && random.one_in(3)) add_mistake(random, b, a);
        a.drains = random.one_in(12) && !a.ops.empty();
        if (a.drains) a.drain_before = static_cast<std::uint32_t>(random.below(a.ops.size()));
        plan.endpoints.push_back(std::move(a));
        plan.endpoints.push_back(std::move(b));
    }

    if (mood.blips) {
        // Each shorter than the two timeouts that one retry allows.
        Time at = 5 * kMillisecond;
        for (int i = 0; i < 12; i++) {
            const Duration length = random.between(70, 110) * kMillisecond;
            for (unsigned a = 0; a < plan.hosts; a++)
                for (unsigned b = a; b < plan.hosts; b++)
                    plan.partitions.push_back({{a, b}, {at, at + length}});
            at += length + random.between(50, 100) * kMillisecond;
        }
        plan.lossless = false;
    }
    if (random.one_in(10)) {
        const auto process = static_cast<unsigned>(random.below(plan.processes.size()));
        const Time at = random.between(0, 5 * kMillisecond);
        plan.pauses.push_back({process, {at, at + random.pick({10, 100, 300}) * kMillisecond}});
    }
    if (random.one_in(25)) {
        plan.vanishes = static_cast<unsigned>(random.below(plan.processes.size()));
        plan.vanishes_at = random.between(0, 3 * kMillisecond);
        plan.vanish_noticed = random.pick({50, 1000, 20'000}) * kMillisecond;
    }
    draw_direct(seed, plan);
    return plan;
}

}  // namespace verbena::sim
