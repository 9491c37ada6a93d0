// What a thread keeps between calls, so that they allocate nothing. It is the borrower's alone while that
// lives: a signal handler that makes such a call meanwhile gets one of its own.
#pragma once

#include <memory>
#include <new>
#include <utility>

#include "base/thread_end.h"

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
    Kept& operator*() { return kept_ ? *kept_ : own_; }

   private:
    static void thread_ends(void* kept) {
        of_thread_ = nullptr;
        delete static_cast<Kept*>(kept);
    }
    // nullptr: there is no memory.
    static Kept* kept() {
        if (of_thread_) return of_thread_;
        constinit static ThreadEnd thread_end{thread_ends};
        std::unique_ptr<Kept> fresh(new (std::nothrow) Kept{});
        if (fresh && thread_end.await(fresh.get())) of_thread_ = fresh.release();
        return of_thread_;
    }
    inline static constinit thread_local Kept* of_thread_ = nullptr;
    inline static constinit thread_local bool lent_ = false;

    const bool is_first_ = !std::exchange(lent_, true);
    Kept* const kept_ = is_first_ ? kept() : nullptr;
    Kept own_{};
};

}  // namespace verbena
