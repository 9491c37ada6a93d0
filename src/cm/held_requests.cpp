#include "cm/held_requests.h"

#include <algorithm>

namespace verbena::cm {

void HeldRequests::listener_gone(std::uint64_t service_id, Time now, bool for_good) {
    for (Request& request : waiting_)
        if (request.service_id == service_id)
            request.due = std::min(request.due, for_good ? now : now + kReopening);
    if (for_good) return;
    std::erase_if(closed_, [now](const auto& port) { return now - port.second >= kMemory; });
    if (closed_.size() < kMaxPorts) closed_[service_id] = now;
}

void HeldRequests::listener_came(std::uint64_t service_id) { closed_.erase(service_id); }

bool HeldRequests::expects_listener(std::uint64_t service_id, Time now) {
    auto found = closed_.find(service_id);
    return found != closed_.end() && now - found->second < kMemory;
}

bool HeldRequests::keep(const Request& request) {
    for (const Request& known : waiting_)
        if (known.mad == request.mad && known.sender_view.source == request.sender_view.source) return true;
    if (waiting_.size() >= kMaxRequests) return false;
    waiting_.push_back(request);
    return true;
}

Time HeldRequests::next_deadline() const {
    Time earliest = kNever;
    for (const Request& request : waiting_) earliest = std::min(earliest, request.due);
    return earliest;
}

template <class Matches>
bool HeldRequests::take(Matches matches, Request& request) {
    auto found = std::find_if(waiting_.begin(), waiting_.end(), matches);
    if (found == waiting_.end()) return false;
    request = *found;
    waiting_.erase(found);
    return true;
}

bool HeldRequests::take_due(Time now, Request& request) {
    return take([now](const Request& waiting) { return waiting.due <= now; }, request);
}

bool HeldRequests::take_waiting(std::uint64_t service_id, Request& request) {
    return take([service_id](const Request& waiting) { return waiting.service_id == service_id; }, request);
}

}  // namespace verbena::cm
