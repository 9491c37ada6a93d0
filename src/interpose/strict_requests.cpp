#include "interpose/strict_requests.h"

#include <algorithm>
#include <cinttypes>
#include <iterator>
#include <utility>

#include "interpose/strict_sentence.h"

namespace verbena::interpose {
namespace {

// Those of one post, which stand together: tickets grow.
template <class Posted>
auto of_ticket(std::deque<Posted>& posted, std::uint64_t ticket) {
    const auto begin = std::partition_point(posted.begin(), posted.end(),
                                            [ticket](const Posted& each) { return each.ticket < ticket; });
    const auto end =
        std::find_if(begin, posted.end(), [ticket](const Posted& each) { return each.ticket != ticket; });
    struct Range {
        typename std::deque<Posted>::iterator first, last;
        auto begin() const { return first; }
        auto end() const { return last; }
    };
    return Range{begin, end};
}

// Takes those out that were not accepted.
template <class Posted, class Before>
void refuse(std::deque<Posted>& posted, std::uint64_t ticket, std::size_t accepted, Before before) {
    const auto [begin, end] = of_ticket(posted, ticket);
    const auto first = std::find_if(begin, end, [=](const Posted& each) { return each.place >= accepted; });
    std::for_each(first, end, before);
    posted.erase(first, end);
}

// How many are outstanding if all of them are without signal; otherwise 0.
template <class Sends>
std::size_t unsignaled_only(const Sends& sends) {
    std::size_t count = 0;
    for (auto each = sends.rbegin(); each != sends.rend(); ++each) {
        if (each->over) continue;
        if (each->request.signaled) return 0;
        count++;
    }
    return count;
}

}  // namespace

// Whether memory of a receive of this queue may be written.
bool Requests::may_receive(Object object) const {
    const auto found = receives_.find(object);
    if (found != receives_.end() && found->second.shared)
        return std::any_of(queues_.begin(), queues_.end(), [object](const auto& each) {
            return each.second.known.shared == object && !each.second.stopped;
        });
    const auto qp = queues_.find(object);
    return qp != queues_.end() && !qp->second.stopped;
}

std::uint64_t Requests::region_leaves(const Regions::Key& key, const char* how) {
    const Regions::Region* region = regions_.find(key);
    if (!region) {
        regions_.forget_gone();  // calls that nobody sees make regions, which may have those keys by now
        return 0;
    }
    LeavingRegion& leaving = leaving_[++moment_] = {key, region->number, how, {}};
    const auto uses = [&key](const std::vector<StrictBuffer>& buffers) {
        return std::any_of(buffers.begin(), buffers.end(), [&key](const StrictBuffer& each) {
            return each.lkey == key.second && each.context == key.first && each.length;
        });
    };
    const auto note = [&](Object about, const char* what, std::uint64_t wr_id, const std::string& whose) {
        leaving.mistakes.emplace_back(
            about, sentence("%s(%s) while the %s wr_id=0x%" PRIx64 " of %s, which uses it, has not completed",
                            how, region->name.c_str(), what, wr_id, whose.c_str()));
    };
    for (const auto& [qp, queue] : queues_) {
        if (queue.stopped) continue;
        // Whether one without signal is over is not known before a later one is.
        const auto user = std::find_if(queue.sends.begin(), queue.sends.end(), [&](const Send& each) {
            return each.request.signaled && !each.over && uses(each.request.buffers);
        });
        if (user != queue.sends.end()) note(qp, "send", user->request.wr_id, queue.known.name);
    }
    for (const auto& [object, queue] : receives_) {
        if (!may_receive(object)) continue;
        const auto user =
            std::find_if(queue.receives.begin(), queue.receives.end(),
                         [&](const Receive& each) { return !each.over && uses(each.request.buffers); });
        if (user != queue.receives.end()) note(object, "receive", user->request.wr_id, queue.name);
    }
    return moment_;
}

Regions::Region Requests::region_left(std::uint64_t ticket, bool success) {
    const auto found = leaving_.find(ticket);
    if (found == leaving_.end()) return {};
    const LeavingRegion leaving = std::move(found->second);
    leaving_.erase(found);
    Regions::Region was;
    const Regions::Region* region = regions_.find(leaving.key);
    const bool is_same = region && region->number == leaving.number;  // not another thread's new one
    if (is_same) was = *region;
    if (!success) return was;
    if (is_same) regions_.gone(leaving.key, leaving.how);
    for (const auto& [about, text] : leaving.mistakes) tell_("region", about, text);
    return was;
}

void Requests::completion_queue_made(Object cq, std::string name, std::uint32_t entries) {
    CompletionQueue& known = queues_of_completions_[cq];
    known.name = std::move(name);
    known.entries = entries;
}

void Requests::queue_pair_made(Object qp, QueuePair made) {
    queue_pair_gone(qp);  // one that nobody saw go
    gone_queues_.remove(made.number);
    ReceiveQueue receives;
    receives.name = made.name;
    receives.cq = made.receive_cq;
    receives_[qp] = std::move(receives);
    Queue& queue = queues_[qp] = {};
    queue.known = std::move(made);
    queue.since = ++moment_;
}

void Requests::drop_all(Object qp) {
    if (const auto found = queues_.find(qp); found != queues_.end()) {
        for (Send& send : found->second.sends) uncount(send, found->second.known.send_cq);
        found->second.sends.clear();
    }
    if (const auto found = receives_.find(qp); found != receives_.end()) {
        for (Receive& receive : found->second.receives) {
            release(receive);
            uncount(receive, found->second.cq);
        }
        found->second.receives.clear();
    }
}

void Requests::queue_pair_stopped(Object qp, bool reset) {
    const auto found = queues_.find(qp);
    if (found == queues_.end()) return;
    found->second.stopped = true;
    if (!reset) return;
    found->second.since = ++moment_;
    found->second.forgot_signaled = found->second.forgot_unsignaled = false;
    drop_all(qp);
}

void Requests::queue_pair_works(Object qp) {
    if (const auto found = queues_.find(qp); found != queues_.end()) found->second.stopped = false;
}

void Requests::queue_pair_gone(Object qp) {
    const auto found = queues_.find(qp);
    if (found == queues_.end()) return;
    const QueuePair& known = found->second.known;
    gone_queues_.add(known.number, {++moment_, known.send_cq, known.receive_cq});
    drop_all(qp);
    queues_.erase(found);
    receives_.erase(qp);
}

void Requests::shared_queue_made(Object srq, std::string name) {
    shared_queue_gone(srq);
    ReceiveQueue& queue = receives_[srq] = {};
    queue.name = std::move(name);
    queue.shared = true;
}

void Requests::shared_queue_gone(Object srq) {
    if (const auto found = receives_.find(srq); found != receives_.end()) {
        for (Receive& receive : found->second.receives) release(receive);
        receives_.erase(found);
    }
}

const Requests::Interval* Requests::receiving(std::uint64_t begin, std::uint64_t end) const {
    const auto after = receiving_.lower_bound(end);
    if (after == receiving_.begin()) return nullptr;
    const Interval& before = std::prev(after)->second;
    return before.end > begin ? &before : nullptr;
}

bool Requests::is_shared_with_receives(const StrictBuffer& buffer) const {
    const auto begin = regions_.begin_of(buffer);
    return buffer.length && begin && receiving(*begin, *begin + buffer.length);
}

void Requests::check_keys(Object queue, const std::string& name, const std::vector<StrictBuffer>& buffers) {
    for (const StrictBuffer& buffer : buffers) {
        if (!buffer.length) continue;
        if (const Regions::Gone* gone = regions_.find_gone({buffer.context, buffer.lkey}))
            tell_("key", queue,
                  sentence("a request of %s uses lkey 0x%x of %s, which is gone (%s)", name.c_str(),
                           buffer.lkey, gone->name.c_str(), gone->how));
        const Regions::Region* region = nullptr;
        const char* memory = regions_.memory_of(buffer, &region);
        if (memory && !is_mapped(memory, buffer.length))
            tell_("unmapped", region->object,
                  sentence("a request of %s uses %u bytes at %p of %s, which are not mapped any more",
                           name.c_str(), buffer.length, static_cast<const void*>(memory),
                           region->name.c_str()));
    }
}

// What a poll has taken that is under way is not outstanding any more, though nobody has told it yet.
void Requests::accept(Posted& request, Object cq) {
    const auto found = queues_of_completions_.find(cq);
    if (found == queues_of_completions_.end()) return;
    CompletionQueue& queue = found->second;
    request.counted = true;
    if (++queue.outstanding > queue.entries + queue.polled)
        tell_("overrun", cq,
              sentence("%s can overrun: %" PRIu64
                       " requests that complete there are outstanding, and it has %u entries",
                       queue.name.c_str(), queue.outstanding, queue.entries));
}

void Requests::uncount(Posted& request, Object cq) {
    if (!std::exchange(request.counted, false)) return;
    const auto found = queues_of_completions_.find(cq);
    if (found != queues_of_completions_.end() && found->second.outstanding > 0) found->second.outstanding--;
}

std::uint64_t Requests::post_send(Object qp, const std::vector<StrictSend>& requests) {
    const auto found = queues_.find(qp);
    if (found == queues_.end()) return 0;
    Queue& queue = found->second;
    const std::string& name = queue.known.name;
    const std::uint64_t ticket = ++moment_;
    for (const StrictSend& request : requests) {
        const bool may_be_full = queue.known.max_send && queue.sends.size() >= queue.known.max_send;
        if (const std::size_t count = may_be_full ? unsignaled_only(queue.sends) : 0;
            may_be_full && count >= queue.known.max_send)
            tell_("unsignaled", qp,
                  sentence("the send queue of %s is full of %zu requests without IBV_SEND_SIGNALED: none of "
                           "them gives a "
                           "completion, so no place ever becomes free",
                           name.c_str(), count));
        check_keys(qp, name, request.buffers);
        Send& send = queue.sends.emplace_back();
        send.ticket = ticket;
        send.place = static_cast<std::size_t>(&request - requests.data());
        send.request = request;
        // What a receive is waiting for in the same memory may come at any time.
        const bool shared = std::any_of(request.buffers.begin(), request.buffers.end(),
                                        [&](const auto& each) { return is_shared_with_receives(each); });
        send.checked = request.reads_memory && !shared && regions_.sum(request.buffers, send.checksum);
        queue.sends_posted++;
        if (queue.sends.size() > 2 * std::size_t{queue.known.max_send ? queue.known.max_send : kMaxSend})
            forget_oldest(queue);
    }
    return ticket;
}

// A library that frees unsignalled ones silently lets the program go on for ever; and completions may be
// taken by calls that nobody sees.
void Requests::forget_oldest(Queue& queue) {
    auto oldest = std::find_if(queue.sends.begin(), queue.sends.end(),
                               [](const Send& each) { return !each.request.signaled; });
    (oldest == queue.sends.end() ? queue.forgot_signaled : queue.forgot_unsignaled) = true;
    if (oldest == queue.sends.end()) oldest = queue.sends.begin();
    uncount(*oldest, queue.known.send_cq);
    queue.sends.erase(oldest);
}

void Requests::posted_send(Object qp, std::uint64_t ticket, std::size_t accepted) {
    const auto found = queues_.find(qp);
    if (found == queues_.end() || ticket == 0) return;
    Queue& queue = found->second;
    for (Send& send : of_ticket(queue.sends, ticket))
        if (send.place < accepted && send.request.signaled) accept(send, queue.known.send_cq);
    refuse(queue.sends, ticket, accepted, [](const Send&) {});
}

std::uint64_t Requests::post_receive(Object object, const std::vector<StrictReceive>& requests) {
    const auto found = receives_.find(object);
    if (found == receives_.end()) return 0;
    ReceiveQueue& queue = found->second;
    const std::uint64_t ticket = ++moment_;
    for (const StrictReceive& request : requests) {
        check_keys(object, queue.name, request.buffers);
        Receive receive;
        receive.ticket = ticket;
        receive.place = static_cast<std::size_t>(&request - requests.data());
        receive.request = request;
        for (const StrictBuffer& buffer : request.buffers) {
            const auto begin = regions_.begin_of(buffer);
            if (!buffer.length || !begin) continue;
            const std::uint64_t end = *begin + buffer.length;
            const Interval* other = receiving(*begin, end);
            // Benchmarks give many receives one buffer, whose content is nobody's, and one wr_id.
            if (other && (other->wr_id != request.wr_id || queue.tells_apart()))
                tell_(
                    "overlap", object,
                    sentence("the receive wr_id=0x%" PRIx64 " of %s has %u bytes at 0x%" PRIx64
                             " that the receive wr_id=0x%" PRIx64 " of %s, which has not completed, has, too",
                             request.wr_id, queue.name.c_str(), buffer.length, buffer.address, other->wr_id,
                             other->whose.c_str()));
            if (other) continue;
            receiving_[*begin] = {end, request.wr_id, queue.name};
            receive.begins.push_back(*begin);
        }
        queue.receives.push_back(std::move(receive));
        queue.posted++;
    }
    return ticket;
}

void Requests::posted_receive(Object object, std::uint64_t ticket, std::size_t accepted) {
    const auto found = receives_.find(object);
    if (found == receives_.end() || ticket == 0) return;
    ReceiveQueue& queue = found->second;
    for (Receive& receive : of_ticket(queue.receives, ticket))
        if (receive.place < accepted && !queue.shared) accept(receive, queue.cq);
    refuse(queue.receives, ticket, accepted, [this](Receive& each) { release(each); });
}

void Requests::release(Receive& receive) {
    for (const std::uint64_t begin : receive.begins) receiving_.erase(begin);
    receive.begins.clear();
}

bool Requests::ReceiveQueue::tells_apart() const {
    std::set<std::uint64_t> different;
    for (const Receive& each : receives) different.insert(each.request.wr_id);
    return receives.size() > 1 && different.size() * 2 > receives.size();
}

}  // namespace verbena::interpose
