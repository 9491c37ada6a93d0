// What a thread keeps between calls, so that they allocate nothing. It is the borrower's alone while that
// lives: a signal handler that makes such a call meanwhile gets one of its own.
#pragma once

#include <utility>

namespace verbena {

template <class Kept>
class Borrowed {
   public:
    Borrowed() = default;
    ~Borrowed() {
        if (is_first_) lent_ = false;
    }
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    Kept& operator*() { return is_first_ ? kept() : own_; }

   private:
    static Kept& kept() {
        thread_local Kept kept;
        return kept;
    }
    inline static thread_local bool lent_ = false;

    const bool is_first_ = !std::exchange(lent_, true);
    Kept own_{};
};

}  // namespace verbena
