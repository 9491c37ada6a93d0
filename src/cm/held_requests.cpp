#include "cm/held_requests.h"

#include <algorithm>
#include <iterator>

namespace verbena::cm {

void HeldRequests::listener_gone(std::uint64_t service_id, Time now, bool for_good) {
    // From now on for whoever comes.
    std::deque<Request> orphans;
    for (auto at = waiting_.lower_bound({service_id, 0});
         at != waiting_.end() && at->first.first == service_id; at = waiting_.erase(at))
        std::move(at->second.begin(), at->second.end(), std::back_inserter(orphans));
    for (Request& request : orphans) {
        request.listener = 0;
        request.due = std::min(request.due, for_good ? now : now + kReopening);
    }
    if (!orphans.empty()) waiting_.emplace(Target{service_id, 0}, std::move(orphans));
    if (for_good) return;
    std::erase_if(closed_, [now](const auto& port) { return now - port.second >= kMemory; });
    if (closed_.size() < kMaxPorts) closed_[service_id] = now;
}

void HeldRequests::listener_gone(std::uint64_t service_id, IdNumber listener, Time now) {
    const auto found = waiting_.find({service_id, listener});
    if (found == waiting_.end()) return;
    for (Request& request : found->second) request.due = std::min(request.due, now);
}

void HeldRequests::listener_came(std::uint64_t service_id) { closed_.erase(service_id); }

bool HeldRequests::expects_listener(std::uint64_t service_id, Time now) {
    auto found = closed_.find(service_id);
    return found != closed_.end() && now - found->second < kMemory;
}

bool HeldRequests::keep(const Request& request) {
    const Target target{request.service_id, request.listener};
    if (const auto found = waiting_.find(target); found != waiting_.end())
        for (const Request& known : found->second)
            if (known.mad == request.mad && known.sender_view.source == request.sender_view.source)
                return true;
    if (count_ >= kMaxRequests) return false;
    waiting_[target].push_back(request);
    count_++;
    return true;
}

void HeldRequests::withdraw(std::uint64_t peer_guid, std::uint32_t peer_comm_id) {
    for (auto at = waiting_.begin(); at != waiting_.end();) {
        count_ -= std::erase_if(at->second, [=](const Request& request) {
            return request.peer_comm_id == peer_comm_id && request.peer_guid == peer_guid;
        });
        at = at->second.empty() ? waiting_.erase(at) : std::next(at);
    }
}

Time HeldRequests::next_deadline() const {
    Time earliest = kNever;
    for (const auto& [target, requests] : waiting_) earliest = std::min(earliest, requests.front().due);
    return earliest;
}

void HeldRequests::take(Waiting::iterator from, Request& request) {
    request = from->second.front();
    from->second.pop_front();
    if (from->second.empty()) waiting_.erase(from);
    count_--;
}

bool HeldRequests::take_due(Time now, Request& request) {
    const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                    [now](const auto& each) { return each.second.front().due <= now; });
    if (found == waiting_.end()) return false;
    take(found, request);
    return true;
}

bool HeldRequests::take_waiting(std::uint64_t service_id, IdNumber listener, Request& request) {
    const auto found = waiting_.find({service_id, listener});
    if (found == waiting_.end()) return false;
    take(found, request);
    return true;
}

}  // namespace verbena::cm
