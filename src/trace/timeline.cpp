#include "trace/timeline.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace verbena::trace {
namespace {

constexpr std::string_view kFetching[] = {
    "ibv_poll_cq",         "ibv_start_poll",    "ibv_next_poll",    "ibv_get_cq_event",
    "ibv_get_async_event", "rdma_get_cm_event", "rdma_get_request",
};

}  // namespace

bool fetches(const std::string& call) {
    return std::find(std::begin(kFetching), std::end(kFetching), call) != std::end(kFetching);
}

void Timeline::put(std::uint64_t time, Json event, Part part) {
    entries_.emplace(Key{time, arrived_++}, Entry{std::move(event), part});
}

void Timeline::add(Json event) {
    const std::string kind = event.value("k", "");
    const std::uint64_t time = event.value("t", std::uint64_t{0});
    if (kind != "begin" && kind != "call") return put(time, std::move(event), Part::whole);
    const bool fetching = fetches(event.value("call", ""));
    const CallKey call{event.value("pid", std::int64_t{0}), event.value("tid", std::int64_t{0}), time};
    if (kind == "begin") {
        const Key key{time + (fetching ? kWaiting : 0), arrived_};
        put(key.first, std::move(event), Part::unfinished);
        begun_.emplace(call, key);
        return;
    }
    if (const auto found = begun_.find(call); found != begun_.end()) {
        entries_.erase(found->second);
        begun_.erase(found);
    }
    const std::uint64_t returned = time + event.value("d", std::uint64_t{0});
    if (unfinished_.erase(call))
        put(returned, std::move(event), Part::resumed);
    else
        put(fetching ? returned : time, std::move(event), Part::whole);
}

void Timeline::advance(std::uint64_t now) {
    while (!entries_.empty() && entries_.begin()->first.first + kKeptBack <= now) {
        const auto first = entries_.begin();
        const Json& event = first->second.event;
        if (first->second.part == Part::unfinished) {
            const CallKey call{event.value("pid", std::int64_t{0}), event.value("tid", std::int64_t{0}),
                               event.value("t", std::uint64_t{0})};
            begun_.erase(call);
            unfinished_[call] = true;
        }
        show_(event, first->second.part);
        entries_.erase(first);
    }
}

void Timeline::end() { advance(UINT64_MAX); }

}  // namespace verbena::trace
