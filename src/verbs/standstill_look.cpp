#include "verbs/standstill_look.h"

#include <infiniband/verbs.h>

#include <array>
#include <cstdio>
#include <memory>
#include <unordered_map>

#include "base/gid.h"
#include "base/reason.h"
#include "verbs/objects.h"
#include "verbs/process.h"
#include "verbs/standstill.h"

namespace verbena::verbs {
namespace {

std::string peer_of(const transport::Attributes& attributes) {
    std::array<char, 80> text;
    std::snprintf(text.data(), text.size(), "QP 0x%06x at %s", attributes.destination_qp,
                  to_string(attributes.path.destination).c_str());
    return text.data();
}

class Look {
   public:
    explicit Look(Process& process) : adapter_(process.adapter()) {
        process.for_each_context([this](Context& context) {
            // The helper has other things to do than to wait for who asks the daemon meanwhile.
            const std::unique_lock lock(context.objects_lock, std::try_to_lock);
            if (!lock) return;
            for (QueuePair* qp : context.queue_pairs) add(*qp);
        });
    }
    Standstill::Found found;

   private:
    void add(QueuePair& handle) {
        transport::QueuePair& qp = *handle.qp;
        const transport::QpSetup& setup = qp.setup();
        transport::Attributes attributes;
        adapter_.query(qp, attributes);
        const transport::Standing standing = adapter_.standing(qp);
        const transport::QpCounters counters = adapter_.counters(qp);
        const std::uint32_t receives = setup.receive_queue ? setup.receive_queue->count() : 0;
        found.queue_pairs.push_back({.number = qp.number(),
                                     .peer = peer_of(attributes),
                                     .standing = standing,
                                     .timeout = attributes.timeout,
                                     .rnr_retry = attributes.rnr_retry,
                                     .receives = receives,
                                     .rnr_naks_received = counters.rnr_naks_received,
                                     .rnr_naks_sent = counters.rnr_naks_sent,
                                     .messages_received = counters.messages_received});
        if (ibv_cq* cq = handle.created.send_cq) {
            Standstill::Queue& queue = add(*Cq::of(cq));
            queue.may_get_one |= standing.signaled;
            queue.silent |= !setup.signal_all && counters.bytes_sent + counters.direct_bytes_out > 0;
        }
        if (ibv_cq* cq = handle.created.recv_cq) add(*Cq::of(cq)).may_get_one |= receives > 0;
    }

    Standstill::Queue& add(Cq& cq) {
        const auto [place, fresh] = places_.try_emplace(&cq, found.queues.size());
        if (!fresh) return found.queues[place->second];
        if (cq.channel) add(*cq.channel);
        return found.queues.emplace_back(
            Standstill::Queue{.number = cq.record ? cq.record->number : 0,
                              .identity = &cq,
                              .channel = cq.channel,
                              .notice = cq.queue->notice(),
                              .taken = cq.queue->taken(),
                              .waiting = cq.queue->waiting(),
                              .polls = cq.polls_in_vain.load(std::memory_order_relaxed)});
    }

    void add(Channel& channel) {
        const auto [place, fresh] = places_.try_emplace(&channel, found.channels.size());
        if (fresh)
            found.channels.push_back({.identity = &channel,
                                      .events = channel.events.awaited().events.load(),
                                      .sleepers = channel.sleepers.load(),
                                      .queues = channel.cqs.load()});
        found.channels[place->second].found++;
    }

    adapter::Adapter& adapter_;
    std::unordered_map<const void*, std::size_t> places_;  // in `found`
};

}  // namespace

void tell_of_standstill(Process& process) {
    auto standstill = std::make_shared<Standstill>();
    process.engine().look_around(Standstill::kLookEvery, [&process, standstill](Time now) {
        const Look look(process);
        for (const std::string& reason : standstill->look(look.found, now))
            log(LogLevel::warn, "%s", reason.c_str());
    });
}

}  // namespace verbena::verbs
