// Which slots of a ring its consumer asks for while it works on one or some, so that their lines cross
// meanwhile. Where no cache is shared a line takes longer than a message, so that the next one alone is not
// enough in a stream; but a line that is taken from the producer before it was written holds up all its
// stores (slot_order.h). So the consumer goes farther only as far as the producer's head says that slots are
// written. The head's line is the producer's, too: it is looked at now and then, in a stream only, and asked
// for before.
//
// `Lines` has fetch(n), for slot n, fetch_head(), and head(): how many slots were ever written. A head that
// lies costs time and nothing else; so does whoever goes by knows_of().
//
// Thread safety: none.
#pragma once

#include <algorithm>
#include <cstdint>

namespace verbena::link {

class ReadAhead {
   public:
    static constexpr std::uint64_t kFar = 4;         // slots
    static constexpr std::uint64_t kLookEvery = 32;  // slots at least, all of them found at the first look

    // Slot n is there.
    template <class Lines>
    void found(std::uint64_t n, const Lines& lines) {
        if (n >= look_at_) [[unlikely]]
            look(n, lines);
        if (n + kFar < written_)
            lines.fetch(n + kFar);
        else if (n + 1 >= written_)
            lines.fetch(n + 1);
    }
    // As many as were found at once are taken, up to slot n: those behind them will be wanted at once, too.
    template <class Lines>
    void takes_together(std::uint64_t n, std::uint64_t count, const Lines& lines) const {
        for (std::uint64_t at = n + kFar; at < std::min(written_, n + count); at++) lines.fetch(at);
    }
    // It is not: the producer is no faster than the consumer, who has nothing to gain.
    void found_nothing(std::uint64_t n) {
        look_at_ = n + kLookEvery;
        looking_ = false;
    }
    // Whether the head said that slot n is there.
    bool knows_of(std::uint64_t n) const { return n < written_; }

   private:
    template <class Lines>
    void look(std::uint64_t n, const Lines& lines) {
        looking_ = !looking_;
        if (looking_) {
            lines.fetch_head();
            look_at_ = n + kFar;
            return;
        }
        const std::uint64_t fetched = std::max(written_, n + 1);
        written_ = lines.head();
        for (std::uint64_t at = fetched; at < std::min(written_, n + kFar); at++) lines.fetch(at);
        look_at_ = n + kLookEvery;
        if (written_ > look_at_ + 2 * kFar) look_at_ = written_ - 2 * kFar;
    }

    std::uint64_t written_ = 0;  // slots, as the head said
    std::uint64_t look_at_ = kLookEvery;
    bool looking_ = false;  // the head was asked for
};

}  // namespace verbena::link
