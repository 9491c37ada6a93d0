// Calls that wake other threads, put off until the calling thread has left its locks: who is woken at once
// finds them taken and sleeps again, and may have got the processor of the one that holds them.
//
// Thread safety: what one thread puts off is its own.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "base/quick_thread_local.h"

namespace verbena {

class Wakening;

// While one lives, its thread puts off; the outermost makes good for it at its end. So it begins before the
// locks, and ends behind them.
class PutOff {
   public:
    PutOff() : inner_(mine.puts_off) { mine.puts_off = true; }
    ~PutOff() {
        if (inner_) return;
        mine.puts_off = false;
        if (mine.count > 0) [[unlikely]]
            make_good();
    }
    PutOff(const PutOff&) = delete;
    PutOff& operator=(const PutOff&) = delete;

    // What is there already stays there once. `now`: not put off, since the thread does not, or has put off
    // too much; the caller must wake at once.
    enum class Added : std::uint8_t { now, first, again };
    static Added add(Wakening& wakening) noexcept;

    // In the middle of what takes long, where the thread holds none of those locks.
    static void catch_up() {
        if (mine.count > 0) make_good();
    }

    // Whether the thread has made good for any since it asked last.
    static bool woke() { return std::exchange(mine.woke, false); }

   private:
    static void make_good();

    static constexpr unsigned kMost = 4;
    struct OfThread {
        bool puts_off = false, woke = false;
        std::uint8_t count = 0;
        std::array<Wakening*, kMost> wakenings{};
    };
    static VERBENA_QUICK_THREAD_LOCAL constinit OfThread mine;

    const bool inner_;
};

class Wakening {
   public:
    virtual void wake() noexcept = 0;

   protected:
    ~Wakening() = default;
};

}  // namespace verbena
