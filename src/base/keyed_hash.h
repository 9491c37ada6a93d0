// A hash that nobody can work out who does not know the key, whatever others he has seen: SipHash-2-4
// (Aumasson and Bernstein, 2012), of one word.
//
// Thread safety: no state.
#pragma once

#include <bit>
#include <cstdint>

namespace verbena {

struct HashKey {
    std::uint64_t low = 0, high = 0;
};

constexpr std::uint64_t keyed_hash(const HashKey& key, std::uint64_t word) {
    std::uint64_t a = key.low ^ 0x736f6d6570736575, b = key.high ^ 0x646f72616e646f6d,
                  c = key.low ^ 0x6c7967656e657261, d = key.high ^ 0x7465646279746573;
    const auto mix = [&](int rounds) {
        for (int i = 0; i < rounds; i++) {
            a += b, c += d;
            b = std::rotl(b, 13) ^ a, d = std::rotl(d, 16) ^ c;
            a = std::rotl(a, 32);
            c += b, a += d;
            b = std::rotl(b, 17) ^ c, d = std::rotl(d, 21) ^ a;
            c = std::rotl(c, 32);
        }
    };
    const auto absorb = [&](std::uint64_t what) {
        d ^= what;
        mix(2);
        a ^= what;
    };
    constexpr std::uint64_t kBytes = 8;
    absorb(word);
    absorb(kBytes << 56);  // the length ends the message
    c ^= 0xff;
    mix(4);
    return a ^ b ^ c ^ d;
}

}  // namespace verbena
