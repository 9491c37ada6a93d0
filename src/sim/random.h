// The simulator's random numbers: xoshiro256** seeded through splitmix64, so that a seed means the same run
// with every compiler and library. One instance per concern (network, workload, scheduling): what one of them
// draws does not disturb the others.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

namespace verbena::sim {

constexpr std::uint64_t mix(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

class Random {
   public:
    explicit Random(std::uint64_t seed) {
        for (std::uint64_t& word : state_) word = seed = mix(seed);
    }

    std::uint64_t next() {
        const std::uint64_t result = rotate(state_[1] * 5, 7) * 9;
        const std::uint64_t t = state_[1] << 17;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= t;
        state_[3] = rotate(state_[3], 45);
        return result;
    }
    std::uint32_t next32() { return static_cast<std::uint32_t>(next() >> 32); }

    // 0 .. n-1; n is not 0.
    std::uint64_t below(std::uint64_t n) { return next() % n; }
    // low .. high, both included.
    std::int64_t between(std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
    }
    // True with a chance of `per_million`.
    bool chance(std::uint32_t per_million) { return per_million != 0 && below(1'000'000) < per_million; }
    bool one_in(std::uint32_t n) { return below(n) == 0; }

    template <typename T>
    T pick(std::initializer_list<T> values) {
        return values.begin()[below(values.size())];
    }
    template <typename T>
    T& pick(std::span<T> values) {
        return values[below(values.size())];
    }

   private:
    static constexpr std::uint64_t rotate(std::uint64_t x, int n) { return x << n | x >> (64 - n); }

    std::uint64_t state_[4];
};

// Where a queue pair begins: half of them wrap soon.
inline std::uint32_t starting_psn(Random& random) {
    const std::uint32_t any = random.next32();
    return (random.one_in(2) ? any : 0u - any % 16) & 0xffffff;
}

}  // namespace verbena::sim
