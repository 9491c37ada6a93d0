// By which stores a large payload goes into a ring. Past the cache (base/streaming_copy.h) they never wait
// for the reader's processor, but it reads from memory; plain ones pay where the two share a cache that both
// find everything in. That shows in the time that they take: hardly more than those past the cache, else
// three to twenty times as much.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/trial.h"

namespace verbena::link {

class StoreWay {
   public:
    static constexpr std::size_t kFrom = 4 << 10;  // bytes: what is shorter is stored plainly

    // As memcpy(3).
    void copy(std::uint8_t* to, const void* from, std::size_t length);

    // What copy() does, without the copying and its clock: which way the next one goes, and how long it took.
    bool streams() { return to_measure_ > 0 || !plain_.pays(); }
    void took(bool streamed, std::size_t length, std::uint64_t ticks);

   private:
    static constexpr std::uint64_t kPays = 2;  // times as long as the others, at most
    // So many of the others first, and again behind so many plain ones.
    static constexpr unsigned kMeasured = 8, kAgain = 1024;

    Trial plain_;
    std::uint64_t streamed_ = 0;  // ticks for each KiB, on an average; 0: not known
    unsigned to_measure_ = kMeasured, until_again_ = kAgain;
};

}  // namespace verbena::link
