#include "verbs/standstill.h"

#include <array>
#include <cstdarg>
#include <cstdio>
#include <unordered_map>
#include <utility>

#include "transport/retransmission.h"

namespace verbena::verbs {
namespace {

using Armed = completion::CompletionQueue::Armed;

std::uint64_t identity_of(const void* object) { return reinterpret_cast<std::uintptr_t>(object); }

}  // namespace

std::vector<std::string> Standstill::look(const Found& found, Time now) {
    now_ = now;
    reasons_.clear();
    for (auto& [object, watched] : watched_) watched.seen = false;

    for (const QueuePair& qp : found.queue_pairs) {
        look_at_sender(qp);
        look_at_receiver(qp);
    }
    struct OfChannel {
        const Channel* channel = nullptr;
        std::uint64_t taken = 0;
        bool hopeful = false;
    };
    std::unordered_map<const void*, OfChannel> channels;
    for (const Channel& channel : found.channels) channels[channel.identity].channel = &channel;
    for (const Queue& queue : found.queues) {
        OfChannel& its = channels[queue.channel];
        look_at_queue(queue, its.channel);
        its.taken += queue.taken;
        its.hopeful |= queue.waiting > 0 || queue.notice.armed != Armed::no;
    }
    for (const auto& [identity, its] : channels)
        if (its.channel) look_at_channel(*its.channel, its.taken, its.hopeful);

    std::erase_if(watched_, [](const auto& each) { return !each.second.seen; });
    return std::exchange(reasons_, {});
}

Standstill::Watched* Standstill::stays(Kind kind, std::uint64_t object, std::uint64_t position,
                                       std::uint64_t count) {
    const auto [place, fresh] = watched_.try_emplace({kind, object});
    Watched& watched = place->second;
    if (fresh || watched.position != position) watched = {position, count, now_, false, false};
    watched.seen = true;
    return !watched.told && now_ - watched.since >= kLong ? &watched : nullptr;
}

void Standstill::tell(Watched& watched, const char* format, ...) {
    std::array<char, 512> text;
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text.data(), text.size(), format, arguments);
    va_end(arguments);
    watched.told = true;
    reasons_.emplace_back(text.data());
}

void Standstill::look_at_sender(const QueuePair& qp) {
    const transport::Standing& standing = qp.standing;
    if (!standing.waits) return;
    Watched* const watched = stays(Kind::sender, qp.number, standing.psn, qp.rnr_naks_received);
    if (!watched) return;
    const auto wr_id = static_cast<unsigned long long>(standing.wr_id);
    if (const std::uint64_t refusals = qp.rnr_naks_received - watched->count; refusals > 0)
        return tell(*watched,
                    "QP 0x%06x: send request wr_id 0x%llx has waited for %lld s: %s has no receive posted "
                    "(%llu RNR NAKs; rnr_retry %u%s)",
                    qp.number, wr_id, seconds_since(*watched), qp.peer.c_str(),
                    static_cast<unsigned long long>(refusals), qp.rnr_retry,
                    qp.rnr_retry == transport::kRnrRetryForEver ? ", so it is asked for ever" : "");
    tell(*watched,
         "QP 0x%06x: send request wr_id 0x%llx has waited for %lld s: %s does not answer; its process may be "
         "stopped, or its host cannot be reached%s",
         qp.number, wr_id, seconds_since(*watched), qp.peer.c_str(),
         qp.timeout == 0 ? " (timeout 0: it is waited for for ever)" : "");
}

void Standstill::look_at_receiver(const QueuePair& qp) {
    if (qp.receives > 0 || qp.rnr_naks_sent == 0) return;
    Watched* const watched = stays(Kind::receiver, qp.number, qp.messages_received, qp.rnr_naks_sent);
    if (!watched) return;
    const std::uint64_t refusals = qp.rnr_naks_sent - watched->count;
    if (refusals == 0) {
        watched->since = now_;  // they are of earlier
        return;
    }
    tell(*watched,
         "QP 0x%06x: %s has been sending for %lld s, and no receive is posted (ibv_post_recv): %llu RNR NAKs",
         qp.number, qp.peer.c_str(), seconds_since(*watched), static_cast<unsigned long long>(refusals));
}

void Standstill::look_at_queue(const Queue& queue, const Channel* channel) {
    const bool sleeps = channel && channel->sleepers > 0 && channel->events == 0;

    // An event is given for what completes after the arming.
    const bool event_is_wanted = channel && channel->events == 0 && queue.notice.armed != Armed::no;
    if (queue.waiting > 0 && (event_is_wanted || sleeps)) {
        if (Watched* const watched = stays(Kind::untaken, identity_of(queue.identity), queue.taken, 0))
            tell(*watched, "completion queue %u: %u completion(s) have waited for %lld s, %s", queue.number,
                 queue.waiting, seconds_since(*watched),
                 queue.notice.armed == Armed::no
                     ? "and it is not armed (ibv_req_notify_cq): no event comes for them"
                 : queue.notice.is_held ? "and its moderation (ibv_modify_cq) waits for more of them"
                 : queue.notice.armed == Armed::solicited
                     ? "and it is armed for solicited ones only: no event comes for them"
                     : "and came before it was armed: no event comes for them. Poll once more behind "
                       "ibv_req_notify_cq()");
    }

    const bool never_got_one = queue.taken + queue.waiting == 0;
    if (never_got_one && queue.silent && !queue.may_get_one) {
        Watched* const watched = stays(Kind::silent, identity_of(queue.identity), 0, queue.polls);
        if (watched && (sleeps || queue.polls - watched->count >= kManyPolls))
            tell(*watched,
                 "completion queue %u: a completion has been waited for for %lld s, and none comes: what was "
                 "sent has no IBV_SEND_SIGNALED (nor sq_sig_all), and no receive is posted",
                 queue.number, seconds_since(*watched));
    }
}

void Standstill::look_at_channel(const Channel& channel, std::uint64_t taken, bool hopeful) {
    if (channel.sleepers == 0 || channel.events > 0 || channel.found < channel.queues || hopeful) return;
    if (Watched* const watched = stays(Kind::unarmed, identity_of(channel.identity), taken, 0))
        tell(*watched,
             "ibv_get_cq_event() has waited for %lld s, and no completion queue of its channel is armed "
             "(ibv_req_notify_cq): no event comes",
             seconds_since(*watched));
}

}  // namespace verbena::verbs
