// Where the slots of a ring lie: in which cache line the one is that is written, and read, as number n.
//
// Not one behind the other. A processor that reads lines in a row fetches some sixteen ahead by itself. A
// consumer close behind its producer would take lines from it that are about to be written, so that each
// store to them waits until the other processor has given them back: 100 ns where the two share no cache,
// and all stores behind it wait, too. So successive slots lie in different pages, where nothing is fetched
// ahead, in no order that a processor guesses, and at different places of their pages, since those at the
// same one would push each other out of a small cache.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbena::link {

// The first so many slots fill the first lines, the next as many the next ones.
inline constexpr std::size_t kSlotsTogether = 512;

// Of these, worked out once.
inline constexpr auto kSlotOrder = [] {
    constexpr std::size_t kPages = 8, kLines = kSlotsTogether / kPages;  // of 4 KiB; in each
    std::array<std::uint16_t, kSlotsTogether> order{};
    for (std::size_t n = 0; n < kSlotsTogether; n++)
        order[n] = static_cast<std::uint16_t>(n * 3 % kPages * kLines + (n / kPages ^ n * 5) % kLines);
    return order;
}();

constexpr std::size_t line_of_slot(std::uint64_t n) {
    return n / kSlotsTogether * kSlotsTogether + kSlotOrder[n % kSlotsTogether];
}

}  // namespace verbena::link
