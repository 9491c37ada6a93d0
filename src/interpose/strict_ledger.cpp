#include "interpose/strict_ledger.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace verbena::interpose {

unsigned Unacknowledged::take_given_up(Object object, int type, unsigned count) {
    const auto found = given_up_.find({object, type});
    if (found == given_up_.end()) return 0;
    const unsigned taken = std::min(count, found->second);
    found->second -= taken;
    if (found->second == 0) given_up_.erase(found);
    return taken;
}

bool Unacknowledged::acknowledged(Object event) {
    for (auto& [object, events] : events_) {
        const auto found = std::find_if(events.begin(), events.end(),
                                        [&](const Event& each) { return each.event == event; });
        if (found == events.end()) continue;
        events.erase(found);
        return true;
    }
    return take_given_up(event, 0, 1) == 0;
}

unsigned Unacknowledged::acknowledged(Object object, unsigned count, int type) {
    unsigned left = count;
    if (const auto found = events_.find(object); found != events_.end()) {
        auto& events = found->second;
        const auto taken = [&](const Event& each) { return each.type == type && left > 0 && left--; };
        events.erase(std::remove_if(events.begin(), events.end(), taken), events.end());
        if (events.empty()) events_.erase(found);
    }
    return count - take_given_up(object, type, left);
}

const std::vector<Unacknowledged::Event>& Unacknowledged::of(Object object) const {
    static const std::vector<Event>& none = *new std::vector<Event>;
    const auto found = events_.find(object);
    return found == events_.end() ? none : found->second;
}

std::vector<Unacknowledged::Event> Unacknowledged::give_up(Object object) {
    std::vector<Event> events = std::exchange(events_[object], {});
    events_.erase(object);
    for (const Event& each : events) given_up_[{each.event ? each.event : object, each.type}]++;
    return events;
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
