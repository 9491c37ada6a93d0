// Events of many threads, and packets, in the order in which things happened.
//
// Each arrives when it is over: a call when it returns, and its line says when it began. So events are kept
// back for a while and sorted. A call stands where it began, but one that fetches what has happened (a poll,
// an event) where it returned. One that takes longer than things are kept back stands twice, as in strace:
// where it began, unfinished, and where it returned.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "trace/tail.h"

namespace verbena::trace {

enum class Part : std::uint8_t { whole, unfinished, resumed };

class Timeline {
   public:
    using Show = std::function<void(const Json& event, Part part)>;
    explicit Timeline(Show show) : show_(std::move(show)) {}

    void add(Json event);
    // Shows what is older than kept back; `now`: nanoseconds since 1970.
    void advance(std::uint64_t now);
    // Shows everything that is left; calls that have not returned as unfinished.
    void end();

    static constexpr std::uint64_t kKeptBack = 100'000'000;   // ns
    static constexpr std::uint64_t kWaiting = 1'000'000'000;  // ns until a call that fetches is shown

   private:
    struct Entry {
        Json event;
        Part part;
    };
    using Key = std::pair<std::uint64_t, std::uint64_t>;                    // time, order of arrival
    using CallKey = std::tuple<std::int64_t, std::int64_t, std::uint64_t>;  // pid, tid, when it began

    void put(std::uint64_t time, Json event, Part part);

    Show show_;
    std::map<Key, Entry> entries_;
    std::map<CallKey, Key> begun_;        // calls whose beginning is in entries_
    std::map<CallKey, bool> unfinished_;  // calls that have been shown as such
    std::uint64_t arrived_ = 0;
};

// Whether such a call reports what has happened.
bool fetches(const std::string& call);

}  // namespace verbena::trace
