// Which queue pairs a thread will post to soon, or packets will come to. Programs that have many mostly go
// from one to the next in the same order again and again, so each remembers which one came kFar later the
// last time. Known so far ahead, what leads to a queue pair can be fetched before what it consists of.
//
// Thread safety: all calls; two threads at once confuse each other, which costs a fetch in vain.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace verbena::adapter {

class QpOrder {
   public:
    static constexpr unsigned kFar = 4, kSoon = 2;
    using Follower = std::atomic<std::uint32_t>;

    // Numbers; 0: none.
    struct Expected {
        bool this_one;  // it was expected long ago, or has just been worked on
        std::uint32_t soon, far;
    };
    // `follower_of(number)` is where a queue pair remembers; nullptr: there is no such one.
    template <class FollowerOf>
    Expected comes_to(std::uint32_t number, FollowerOf&& follower_of) {
        if (newest_.load(std::memory_order_relaxed) == number) return {true, 0, 0};
        newest_.store(number, std::memory_order_relaxed);
        const unsigned at = count_.load(std::memory_order_relaxed);
        count_.store(at + 1, std::memory_order_relaxed);
        auto& [came, expected] = steps_[at % kFar];
        Follower* const before = follower_of(came.load(std::memory_order_relaxed));
        if (before && before->load(std::memory_order_relaxed) != number)
            before->store(number, std::memory_order_relaxed);
        came.store(number, std::memory_order_relaxed);
        const bool this_one = expected.load(std::memory_order_relaxed) == number;
        const Follower* const follower = follower_of(number);
        const std::uint32_t far = follower ? follower->load(std::memory_order_relaxed) : 0;
        expected.store(far, std::memory_order_relaxed);
        return {this_one, steps_[(at + kSoon) % kFar].expected.load(std::memory_order_relaxed), far};
    }

   private:
    struct Step {
        std::atomic<std::uint32_t> came{0}, expected{0};  // the last time, and the next
    };
    std::array<Step, kFar> steps_;
    std::atomic<std::uint32_t> newest_{0};
    std::atomic<unsigned> count_{0};
};

}  // namespace verbena::adapter
