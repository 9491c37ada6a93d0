#include "cm/reopening.h"

#include <algorithm>

namespace verbena::cm {

void Reopening::listener_gone(std::uint64_t service_id, Time now) {
    std::erase_if(closed_, [now](const auto& port) { return now - port.second >= kMemory; });
    if (closed_.size() < kMaxPorts) closed_[service_id] = now;
}

void Reopening::listener_came(std::uint64_t service_id) { closed_.erase(service_id); }

bool Reopening::expects(std::uint64_t service_id, Time now) {
    auto found = closed_.find(service_id);
    if (found == closed_.end()) return false;
    if (now - found->second < kMemory) return true;
    closed_.erase(found);
    return false;
}

bool Reopening::keep(std::uint64_t service_id, const wire::Path& sender_view, std::uint32_t source_qp,
                     std::span<const std::uint8_t, 256> mad, Time now) {
    if (waiting_.size() >= kMaxRequests) return false;
    Request& request = waiting_.emplace_back();
    request.service_id = service_id;
    request.came = now;
    request.sender_view = sender_view;
    request.source_qp = source_qp;
    std::copy(mad.begin(), mad.end(), request.mad.begin());
    return true;
}

Time Reopening::next_deadline() const {
    return waiting_.empty() ? kNever : waiting_.front().came + kPatience;
}

template <class Matches>
bool Reopening::take(Matches matches, Request& request) {
    auto found = std::find_if(waiting_.begin(), waiting_.end(), matches);
    if (found == waiting_.end()) return false;
    request = *found;
    waiting_.erase(found);
    return true;
}

bool Reopening::take_due(Time now, Request& request) {
    return take([now](const Request& waiting) { return waiting.came + kPatience <= now; }, request);
}

bool Reopening::take_waiting(std::uint64_t service_id, Request& request) {
    return take([service_id](const Request& waiting) { return waiting.service_id == service_id; }, request);
}

}  // namespace verbena::cm
