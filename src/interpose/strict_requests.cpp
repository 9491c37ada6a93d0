#include "interpose/strict_requests.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "base/memcheck.h"

namespace verbena::interpose {
namespace {

constexpr std::size_t kRemembered = 1024;  // regions that are gone

[[gnu::format(printf, 1, 2)]] std::string sentence(const char* format, ...) {
    char text[400];
    std::va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return text;
}

// Whether the pages of this range exist; whoever reads others dies.
bool is_mapped(const char* begin, std::uint64_t size) {
    static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto first = reinterpret_cast<std::uintptr_t>(begin) & ~(page - 1);
    const auto length = reinterpret_cast<std::uintptr_t>(begin) + size - first;
    unsigned char state[64];
    for (std::uintptr_t at = 0; at < length; at += page * sizeof state)
        if (mincore(reinterpret_cast<void*>(first + at),
                    std::min<std::uintptr_t>(length - at, page * sizeof state), state) != 0)
            return false;
    return true;
}

// Not a good hash; a change of some bytes shows.
std::uint64_t mix(std::uint64_t sum, const char* bytes, std::size_t size) {
    constexpr std::uint64_t kPrime = 0x9e3779b97f4a7c15;
    for (; size >= 8; bytes += 8, size -= 8) {
        std::uint64_t word;
        std::memcpy(&word, bytes, 8);
        sum = (sum ^ word) * kPrime;
        sum ^= sum >> 29;
    }
    for (; size > 0; bytes++, size--) sum = (sum ^ static_cast<unsigned char>(*bytes)) * kPrime;
    return sum;
}

}  // namespace

void Requests::region_made(std::uint32_t lkey, Region region) {
    gone_.erase(lkey);
    regions_[lkey] = std::move(region);
}

void Requests::region_gone(std::uint32_t lkey, const char* how) {
    const auto found = regions_.find(lkey);
    if (found == regions_.end()) return;
    const auto uses = [lkey](const std::vector<StrictBuffer>& buffers) {
        return std::any_of(buffers.begin(), buffers.end(),
                           [lkey](const auto& each) { return each.lkey == lkey && each.length; });
    };
    for (const auto& [qp, queue] : queues_) {
        if (queue.stopped) continue;
        for (const Send& send : queue.sends)
            // Whether one without signal is over is not known before a later one is.
            if (send.request.signaled && uses(send.request.buffers)) {
                tell_("region", qp,
                      sentence(
                          "%s(%s) while the send wr_id=0x%" PRIx64 " of %s, which uses it, has not completed",
                          how, found->second.name.c_str(), send.request.wr_id, queue.known.name.c_str()));
                break;
            }
    }
    for (const auto& [object, queue] : receives_) {
        if (queue.stopped) continue;
        const auto user = std::find_if(queue.receives.begin(), queue.receives.end(),
                                       [&](const Receive& each) { return uses(each.request.buffers); });
        if (user != queue.receives.end())
            tell_("region", object,
                  sentence("%s(%s) while the receive wr_id=0x%" PRIx64
                           " of %s, which uses it, has not completed",
                           how, found->second.name.c_str(), user->request.wr_id, queue.name.c_str()));
    }
    if (gone_.size() >= kRemembered) gone_.erase(gone_.begin());
    gone_[lkey] = {found->second.name, how};
    regions_.erase(found);
}

void Requests::completion_queue_made(Object cq, std::string name, std::uint32_t entries) {
    CompletionQueue& known = queues_of_completions_[cq];
    known.name = std::move(name);
    known.entries = entries;
}

void Requests::queue_pair_made(Object qp, QueuePair made) {
    ReceiveQueue receives;
    receives.name = made.name;
    receives.cq = made.receive_cq;
    receives_[qp] = std::move(receives);
    Queue& queue = queues_[qp] = {};
    queue.known = std::move(made);
}

void Requests::drop_all(Object qp) {
    if (const auto found = queues_.find(qp); found != queues_.end()) {
        for (const Send& send : found->second.sends)
            if (send.request.signaled) count(found->second.known.send_cq, -1);
        found->second.sends.clear();
    }
    if (const auto found = receives_.find(qp); found != receives_.end()) {
        for (Receive& receive : found->second.receives) release(receive);
        count(found->second.cq, -static_cast<int>(found->second.receives.size()));
        found->second.receives.clear();
    }
}

void Requests::queue_pair_stopped(Object qp, bool reset) {
    if (reset) drop_all(qp);
    if (const auto found = queues_.find(qp); found != queues_.end()) found->second.stopped = true;
    if (const auto found = receives_.find(qp); found != receives_.end()) found->second.stopped = true;
}

void Requests::queue_pair_works(Object qp) {
    if (const auto found = queues_.find(qp); found != queues_.end()) found->second.stopped = false;
    if (const auto found = receives_.find(qp); found != receives_.end()) found->second.stopped = false;
}

void Requests::queue_pair_gone(Object qp) {
    drop_all(qp);
    queues_.erase(qp);
    receives_.erase(qp);
}

void Requests::shared_queue_made(Object srq, std::string name) {
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

const char* Requests::memory_of(const StrictBuffer& buffer, const Region** region) const {
    const auto found = regions_.find(buffer.lkey);
    if (found == regions_.end() || !found->second.memory) return nullptr;
    const Region& r = found->second;
    if (buffer.address < r.first || buffer.length > r.length ||
        buffer.address - r.first > r.length - buffer.length)
        return nullptr;
    if (region) *region = &r;
    return r.memory + (buffer.address - r.first);
}

std::uint64_t Requests::begin_of(const StrictBuffer& buffer) const {
    const char* memory = memory_of(buffer);
    return memory ? reinterpret_cast<std::uintptr_t>(memory) : buffer.address;
}

const Requests::Interval* Requests::receiving(std::uint64_t begin, std::uint64_t end) const {
    const auto after = receiving_.lower_bound(end);
    if (after == receiving_.begin()) return nullptr;
    const Interval& before = std::prev(after)->second;
    return before.end > begin ? &before : nullptr;
}

bool Requests::sum(const StrictSend& request, std::uint64_t& out) const {
    const memcheck::Unjudged unjudged;  // gaps are summed, too
    out = 0;
    for (const StrictBuffer& buffer : request.buffers) {
        if (!buffer.length) continue;
        const char* memory = memory_of(buffer);
        if (!memory || !is_mapped(memory, buffer.length)) return false;
        out = mix(out, memory, buffer.length);
    }
    memcheck::set_defined(&out, sizeof out);
    return true;
}

void Requests::check_keys(Object queue, const std::string& name, const std::vector<StrictBuffer>& buffers) {
    for (const StrictBuffer& buffer : buffers) {
        if (!buffer.length) continue;
        if (const auto found = gone_.find(buffer.lkey); found != gone_.end() && !regions_.count(buffer.lkey))
            tell_("key", queue,
                  sentence("a request of %s uses lkey 0x%x of %s, which is gone (%s)", name.c_str(),
                           buffer.lkey, found->second.first.c_str(), found->second.second));
        const Region* region = nullptr;
        const char* memory = memory_of(buffer, &region);
        if (memory && !is_mapped(memory, buffer.length))
            tell_("unmapped", region->object,
                  sentence("a request of %s uses %u bytes at %p of %s, which are not mapped any more",
                           name.c_str(), buffer.length, static_cast<const void*>(memory),
                           region->name.c_str()));
    }
}

void Requests::count(Object cq, int change) {
    const auto found = queues_of_completions_.find(cq);
    if (found == queues_of_completions_.end()) return;
    CompletionQueue& queue = found->second;
    queue.outstanding =
        change < 0 && queue.outstanding < static_cast<std::uint64_t>(-change)
            ? 0
            : queue.outstanding + static_cast<std::uint64_t>(static_cast<std::int64_t>(change));
    if (change > 0 && queue.outstanding > queue.entries)
        tell_("overrun", cq,
              sentence("%s can overrun: %" PRIu64
                       " requests that complete there are outstanding, and it has %u entries",
                       queue.name.c_str(), queue.outstanding, queue.entries));
}

void Requests::post_send(Object qp, const std::vector<StrictSend>& requests) {
    const auto found = queues_.find(qp);
    if (found == queues_.end()) return;
    Queue& queue = found->second;
    const std::string& name = queue.known.name;
    for (const StrictSend& request : requests) {
        if (queue.known.max_send && queue.sends.size() >= queue.known.max_send &&
            std::none_of(queue.sends.begin(), queue.sends.end(),
                         [](const Send& each) { return each.request.signaled; }))
            tell_("unsignaled", qp,
                  sentence("the send queue of %s is full of %zu requests without IBV_SEND_SIGNALED: none of "
                           "them gives a "
                           "completion, so no place ever becomes free",
                           name.c_str(), queue.sends.size()));
        if (request.reads_memory) check_keys(qp, name, request.buffers);
        Send& send = queue.sends.emplace_back();
        send.request = request;
        // What a receive is waiting for in the same memory may come at any time.
        const bool shared =
            std::any_of(request.buffers.begin(), request.buffers.end(), [&](const StrictBuffer& each) {
                return each.length && receiving(begin_of(each), begin_of(each) + each.length);
            });
        send.checked = request.reads_memory && !shared && sum(request, send.checksum);
        queue.sends_posted++;
        if (request.signaled) count(queue.known.send_cq, 1);
        // Full of unsignalled ones: a library that frees them silently lets the program go on for ever.
        if (queue.known.max_send && queue.sends.size() > 2 * std::size_t{queue.known.max_send})
            queue.sends.pop_front();
    }
}

void Requests::undo_send(Object qp, std::size_t refused) {
    const auto found = queues_.find(qp);
    if (found == queues_.end()) return;
    for (auto& sends = found->second.sends; refused > 0 && !sends.empty(); refused--) {
        if (sends.back().request.signaled) count(found->second.known.send_cq, -1);
        sends.pop_back();
    }
}

void Requests::post_receive(Object object, const std::vector<StrictReceive>& requests) {
    const auto found = receives_.find(object);
    if (found == receives_.end()) return;
    ReceiveQueue& queue = found->second;
    for (const StrictReceive& request : requests) {
        check_keys(object, queue.name, request.buffers);
        Receive receive;
        receive.request = request;
        for (const StrictBuffer& buffer : request.buffers) {
            if (!buffer.length) continue;
            const std::uint64_t begin = begin_of(buffer), end = begin + buffer.length;
            const Interval* other = receiving(begin, end);
            // Benchmarks give many receives one buffer, whose content is nobody's, and one wr_id.
            if (other && (other->wr_id != request.wr_id || queue.tells_apart()))
                tell_(
                    "overlap", object,
                    sentence("the receive wr_id=0x%" PRIx64 " of %s has %u bytes at 0x%" PRIx64
                             " that the receive wr_id=0x%" PRIx64 " of %s, which has not completed, has, too",
                             request.wr_id, queue.name.c_str(), buffer.length, buffer.address, other->wr_id,
                             other->whose.c_str()));
            if (other) continue;
            receiving_[begin] = {end, request.wr_id, queue.name};
            receive.begins.push_back(begin);
        }
        queue.receives.push_back(std::move(receive));
        queue.posted++;
        if (!queue.shared) count(queue.cq, 1);
    }
}

void Requests::undo_receive(Object object, std::size_t refused) {
    const auto found = receives_.find(object);
    if (found == receives_.end()) return;
    for (auto& receives = found->second.receives; refused > 0 && !receives.empty(); refused--) {
        release(receives.back());
        receives.pop_back();
        if (!found->second.shared) count(found->second.cq, -1);
    }
}

void Requests::release(Receive& receive) {
    for (const std::uint64_t begin : receive.begins) receiving_.erase(begin);
    receive.begins.clear();
}

void Requests::finish(Object qp, Queue& queue, Send& send, bool look) {
    if (send.request.signaled) count(queue.known.send_cq, -1);
    std::uint64_t now = 0;
    if (!look || !send.checked) return;
    if (!sum(send.request, now))
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

// Requests complete in their order; those without signal say nothing unless they fail.
bool Requests::finish_send(Object qp, Queue& queue, std::uint64_t wr_id, bool success) {
    auto& sends = queue.sends;
    const auto match = std::find_if(sends.begin(), sends.end(), [&](const Send& each) {
        return each.request.wr_id == wr_id && (each.request.signaled || !success);
    });
    if (match == sends.end()) return false;
    if (std::any_of(sends.begin(), match, [](const Send& each) { return each.request.signaled; }) && success)
        return false;
    for (auto left = match - sends.begin() + 1; left > 0; left--) {
        finish(qp, queue, sends.front(), success);
        sends.pop_front();
    }
    return true;
}

bool Requests::ReceiveQueue::tells_apart() const {
    std::set<std::uint64_t> different;
    for (const Receive& each : receives) different.insert(each.request.wr_id);
    return receives.size() > 1 && different.size() * 2 > receives.size();
}

bool Requests::finish_receive(ReceiveQueue& queue, std::uint64_t wr_id) {
    const auto match = std::find_if(queue.receives.begin(), queue.receives.end(),
                                    [&](const Receive& each) { return each.request.wr_id == wr_id; });
    if (match == queue.receives.end()) return false;
    release(*match);
    queue.receives.erase(match);
    if (!queue.shared) count(queue.cq, -1);
    return true;
}

void Requests::completed_somewhere(Object cq, std::uint64_t wr_id, bool success, bool receive) {
    for (auto& [qp, queue] : queues_) {
        const bool sends = queue.known.send_cq == cq, receives = queue.known.receive_cq == cq;
        if (sends && (!receive || !success) && finish_send(qp, queue, wr_id, success)) return;
        const auto found = receives_.find(queue.known.shared ? queue.known.shared : qp);
        if (receives && (receive || !success) && found != receives_.end() &&
            finish_receive(found->second, wr_id))
            return;
    }
}

void Requests::completed(Object cq, std::uint32_t number, std::uint64_t wr_id, bool success, bool receive) {
    if (number == kAnyQueuePair) return completed_somewhere(cq, wr_id, success, receive);
    const auto found = std::find_if(queues_.begin(), queues_.end(), [&](const auto& each) {
        const QueuePair& known = each.second.known;
        return known.number == number && (known.send_cq == cq || known.receive_cq == cq || known.shared);
    });
    if (found == queues_.end()) {
        const auto queue = queues_of_completions_.find(cq);
        if (queue != queues_of_completions_.end() &&
            std::none_of(receives_.begin(), receives_.end(),
                         [](const auto& each) { return each.second.shared; }))
            tell_(
                "unknown", cq,
                sentence("%s has a completion wr_id=0x%" PRIx64 " of qp 0x%x, which is none or was destroyed",
                         queue->second.name.c_str(), wr_id, number));
        return;
    }
    const Object qp = found->first;
    Queue& queue = found->second;
    if (!success) queue_pair_stopped(qp, false);
    const Object receiver = queue.known.shared ? queue.known.shared : qp;
    const auto receives = receives_.find(receiver);
    const bool has_receives = receives != receives_.end() && receives->second.posted > 0;
    const auto as_send = [&] { return queue.sends_posted > 0 && finish_send(qp, queue, wr_id, success); };
    const auto as_receive = [&] { return has_receives && finish_receive(receives->second, wr_id); };
    if (receive ? as_receive() : as_send()) return;
    if (!success && (receive ? as_send() : as_receive())) return;
    // A queue pair whose posts are not seen (a provider's own interface) says nothing.
    if (receive ? !has_receives : queue.sends_posted == 0) return;
    tell_("twice", qp,
          sentence("a completion of %s has wr_id=0x%" PRIx64
                   ", which was never posted as a %s or has completed before",
                   queue.known.name.c_str(), wr_id, receive ? "receive" : "send"));
}

}  // namespace verbena::interpose
