// Deadlines of numbered things, in the order in which they fall due; equal deadlines in the order of the
// numbers, so that a run is deterministic. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/time.h"

namespace verbena::cm {

class Timers {
   public:
    using Key = std::uint64_t;

    // Replaces the key's deadline.
    void set(Key key, Time deadline) {
        cancel(key);
        by_key_.emplace(key, deadline);
        by_time_.emplace(deadline, key);
    }

    void cancel(Key key) {
        auto found = by_key_.find(key);
        if (found == by_key_.end()) return;
        by_time_.erase({found->second, key});
        by_key_.erase(found);
    }

    Time next() const { return by_time_.empty() ? kNever : by_time_.begin()->first; }
    bool contains(Key key) const { return by_key_.contains(key); }

    // Takes the earliest key whose deadline has come; false if there is none.
    bool pop(Time now, Key& key) {
        if (by_time_.empty() || by_time_.begin()->first > now) return false;
        key = by_time_.begin()->second;
        cancel(key);
        return true;
    }

   private:
    std::unordered_map<Key, Time> by_key_;
    std::set<std::pair<Time, Key>> by_time_;
};

}  // namespace verbena::cm
