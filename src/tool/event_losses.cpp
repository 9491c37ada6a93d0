#include "tool/event_losses.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace verbena::tool {

using interpose::LostEvents;

EventLosses::~EventLosses() {
    if (lost_) LostEvents::unmap(lost_);
}

bool EventLosses::open() {
    if (!file_.open("lost")) return false;
    lost_ = LostEvents::make(file_.fd());
    if (!lost_) std::fprintf(stderr, "verbena: %s: %s\n", file_.path().c_str(), std::strerror(errno));
    return lost_ != nullptr;
}

bool EventLosses::tell(const std::string& events, int packets_error) const {
    const std::uint64_t count = lost_->count;
    if (!count && !packets_error) return true;
    std::string what = count ? std::to_string(count) + (count == 1 ? " event" : " events") : "";
    if (packets_error) what += count ? " and packets" : "packets";
    std::fprintf(stderr, "verbena: %s: %s; %s %s missing\n", events.c_str(),
                 std::strerror(count ? int{lost_->error} : packets_error), what.c_str(),
                 count == 1 && !packets_error ? "is" : "are");
    return false;
}

}  // namespace verbena::tool
