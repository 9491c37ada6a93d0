// What is gone, by key: the last so many of it.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace verbena::interpose {

template <class Key, class Value>
class Remembered {
   public:
    explicit Remembered(std::size_t limit) : limit_(limit) {}

    void add(const Key& key, Value value) {
        remove(key);
        if (by_key_.size() >= limit_) remove(Key{by_age_.begin()->second});
        by_age_[++added_] = key;
        by_key_[key] = {added_, std::move(value)};
    }
    void remove(const Key& key) {
        const auto found = by_key_.find(key);
        if (found == by_key_.end()) return;
        by_age_.erase(found->second.first);
        by_key_.erase(found);
    }
    void clear() {
        by_key_.clear();
        by_age_.clear();
    }
    const Value* find(const Key& key) const {
        const auto found = by_key_.find(key);
        return found == by_key_.end() ? nullptr : &found->second.second;
    }

   private:
    const std::size_t limit_;
    std::uint64_t added_ = 0;
    std::map<Key, std::pair<std::uint64_t, Value>> by_key_;
    std::map<std::uint64_t, Key> by_age_;
};

}  // namespace verbena::interpose
