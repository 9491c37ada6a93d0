#include "interpose/strict_ledger.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace verbena::interpose {

bool Unacknowledged::acknowledged(Object event) {
    if (const auto found = given_up_.find(event); found != given_up_.end()) {
        given_up_.erase(found);
        return false;
    }
    for (auto& [object, events] : events_) {
        const auto found = std::find_if(events.begin(), events.end(),
                                        [&](const Event& each) { return each.event == event; });
        if (found == events.end()) continue;
        events.erase(found);
        break;
    }
    return true;
}

void Unacknowledged::acknowledged(Object object, unsigned count) {
    const auto found = events_.find(object);
    if (found == events_.end()) return;
    auto& events = found->second;
    events.erase(events.begin(), events.begin() + std::min<std::ptrdiff_t>(
                                                      count, static_cast<std::ptrdiff_t>(events.size())));
}

const std::vector<Unacknowledged::Event>& Unacknowledged::of(Object object) const {
    static const std::vector<Event>& none = *new std::vector<Event>;
    const auto found = events_.find(object);
    return found == events_.end() ? none : found->second;
}

void Unacknowledged::give_up(Object object) {
    for (const Event& event : of(object))
        if (event.event) given_up_.insert(event.event);
    events_.erase(object);
}

std::vector<Inventory::Left> Inventory::left(pid_t process) const {
    std::vector<Left> all;
    for (const auto& each_known : known_) {
        const Known& known = each_known.second;
        if (known.process != process) continue;
        const auto same = std::find_if(all.begin(), all.end(), [&](const Left& each) {
            return std::string_view(each.kind) == known.kind && each.place == known.place;
        });
        if (same == all.end())
            all.push_back({known.kind, 1, known.place});
        else
            same->count++;
    }
    std::sort(all.begin(), all.end(),
              [](const Left& a, const Left& b) { return std::string_view(a.kind) < b.kind; });
    return all;
}

}  // namespace verbena::interpose
