// What completions say of the requests that were posted.

#include <algorithm>
#include <cinttypes>
#include <vector>

#include "interpose/strict_requests.h"
#include "interpose/strict_sentence.h"

namespace verbena::interpose {

std::uint64_t Requests::poll_begins(Object cq, std::uint32_t most) {
    if (const auto found = queues_of_completions_.find(cq); found != queues_of_completions_.end()) {
        found->second.polls++;
        found->second.polled += most;
    }
    return moment_;
}

void Requests::poll_ends(Object cq, std::uint32_t most) {
    const auto found = queues_of_completions_.find(cq);
    if (found == queues_of_completions_.end() || found->second.polls == 0) return;
    found->second.polls--;
    found->second.polled -= std::min<std::uint64_t>(most, found->second.polled);
}

bool Requests::others_poll(Object cq) const {
    const auto found = queues_of_completions_.find(cq);
    return found != queues_of_completions_.end() && found->second.polls > 1;
}

Requests::Sends::iterator Requests::find_send(Queue& queue, std::uint64_t wr_id, bool success) {
    // Those without signal say nothing unless they fail.
    return std::find_if(queue.sends.begin(), queue.sends.end(), [&](const Send& each) {
        return each.request.wr_id == wr_id && (each.request.signaled || !success);
    });
}

void Requests::look(Object qp, const Queue& queue, Send& send) {
    if (!send.checked || send.over) return;
    std::uint64_t now = 0;
    if (!regions_.sum(send.request.buffers, now))
        tell_("unmapped", qp,
              sentence("memory of the send wr_id=0x%" PRIx64
                       " of %s was unmapped or deregistered before it completed",
                       send.request.wr_id, queue.known.name.c_str()));
    else if (now != send.checksum)
        tell_("changed", qp,
              sentence("the buffer of the send wr_id=0x%" PRIx64
                       " of %s was changed between its post and its completion",
                       send.request.wr_id, queue.known.name.c_str()));
}

// Any request of this wr_id may be the one that has completed, with all before it.
void Requests::may_be_over(Queue& queue, std::uint64_t wr_id) {
    const auto last = std::find_if(queue.sends.rbegin(), queue.sends.rend(),
                                   [&](const Send& each) { return each.request.wr_id == wr_id; });
    std::for_each(last, queue.sends.rend(), [](Send& each) { each.over = true; });
}

// Requests complete in their order, so those before it are over, too; but another thread may have taken
// their completions and not told yet. Their buffers are the program's from here on.
bool Requests::finish_send(Object qp, Queue& queue, std::uint64_t wr_id, bool success) {
    auto& sends = queue.sends;
    const auto match = find_send(queue, wr_id, success);
    if (match == sends.end()) return false;
    // After a failure none touches memory any more.
    std::for_each(sends.begin(), success ? std::next(match) : sends.end(), [&](Send& each) {
        if (success) look(qp, queue, each);
        each.over = true;
    });
    const bool others = others_poll(queue.known.send_cq);
    if (others) may_be_over(queue, wr_id);
    uncount(*match, queue.known.send_cq);
    const auto after = sends.erase(match);
    if (!success || others) return true;  // those without signal may have failed, too, and say so
    const auto first =
        std::remove_if(sends.begin(), after, [](const Send& each) { return !each.request.signaled; });
    queue.forgot_unsignaled |= first != after;
    sends.erase(first, after);
    return true;
}

bool Requests::finish_receive(ReceiveQueue& queue, std::uint64_t wr_id) {
    const auto match = std::find_if(queue.receives.begin(), queue.receives.end(),
                                    [&](const Receive& each) { return each.request.wr_id == wr_id; });
    if (match == queue.receives.end()) return false;
    // Of a queue pair they complete in their order, too; a shared queue's as its queue pairs go on.
    if (!queue.shared)
        std::for_each(queue.receives.begin(), match, [this](Receive& each) {
            each.over = true;
            release(each);
        });
    release(*match);
    uncount(*match, queue.cq);
    queue.receives.erase(match);
    return true;
}

// Of the queue pairs that have such a request one is as good as another, unless there is only one.
void Requests::completed_somewhere(Object cq, const Completion& c) {
    if (!c.receive || !c.success) {
        std::vector<std::pair<Object, Queue*>> senders;
        for (auto& [qp, queue] : queues_)
            if (queue.known.send_cq == cq && find_send(queue, c.wr_id, c.success) != queue.sends.end())
                senders.emplace_back(qp, &queue);
        for (const auto& [qp, queue] : senders) {
            if (senders.size() > 1) may_be_over(*queue, c.wr_id);
            if (!c.success) queue->stopped = true;
        }
        if (!senders.empty() && finish_send(senders[0].first, *senders[0].second, c.wr_id, c.success)) return;
    }
    if (c.receive || !c.success)
        for (auto& [qp, queue] : queues_) {
            const auto found = receives_.find(queue.known.shared ? queue.known.shared : qp);
            if (queue.known.receive_cq == cq && found != receives_.end() &&
                finish_receive(found->second, c.wr_id))
                return;
        }
}

// Its queue pair was destroyed, unless it is one that was never seen: a provider's own interface made it.
void Requests::completed_nowhere(Object cq, const Completion& c, std::uint64_t began) {
    const auto queue = queues_of_completions_.find(cq);
    const GoneQueuePair* gone = gone_queues_.find(c.number);
    if (queue == queues_of_completions_.end() || !gone || gone->since > began ||
        (gone->send_cq != cq && gone->receive_cq != cq) ||
        std::any_of(receives_.begin(), receives_.end(), [](const auto& each) { return each.second.shared; }))
        return;
    tell_("unknown", cq,
          sentence("%s has a completion wr_id=0x%" PRIx64 " of qp 0x%x, which was destroyed",
                   queue->second.name.c_str(), c.wr_id, c.number));
}

void Requests::completed(Object cq, const Completion& c, std::uint64_t began) {
    if (c.number == kAnyQueuePair) return completed_somewhere(cq, c);
    const auto found = std::find_if(queues_.begin(), queues_.end(), [&](const auto& each) {
        const QueuePair& known = each.second.known;
        return known.number == c.number && (known.send_cq == cq || known.receive_cq == cq || known.shared);
    });
    if (found == queues_.end()) return completed_nowhere(cq, c, began);
    const Object qp = found->first;
    Queue& queue = found->second;
    if (!c.success) queue_pair_stopped(qp, false);
    const Object receiver = queue.known.shared ? queue.known.shared : qp;
    const auto receives = receives_.find(receiver);
    const bool has_receives = receives != receives_.end() && receives->second.posted > 0;
    const auto as_send = [&] { return queue.sends_posted > 0 && finish_send(qp, queue, c.wr_id, c.success); };
    const auto as_receive = [&] { return has_receives && finish_receive(receives->second, c.wr_id); };
    if (c.receive ? as_receive() : as_send()) return;
    if (!c.success && (c.receive ? as_send() : as_receive())) return;
    // A queue pair whose posts are not seen (a provider's own interface) says nothing.
    if (c.receive ? !has_receives : queue.sends_posted == 0) return;
    if (began < queue.since) return;  // it may be of what the queue pair was before
    // Of a failure the direction is not known.
    if (queue.forgot_signaled ? !c.success || !c.receive : !c.success && queue.forgot_unsignaled) return;
    tell_("twice", qp,
          sentence("a completion of %s has wr_id=0x%" PRIx64
                   ", which was never posted as a %s or has completed before",
                   queue.known.name.c_str(), c.wr_id, c.receive ? "receive" : "send"));
}

}  // namespace verbena::interpose
