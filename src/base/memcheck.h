// A program under valgrind's memcheck sees of us what an adapter would let it see: received bytes are defined
// when they are placed, and what leaves need not have been set, but must be there. Memcheck sees only what a
// process does to its own memory, so peers of this host are reached by packets then (verbs/process.cpp).
//
// Outside of memcheck, under valgrind's other tools too, this is a look at a constant; built without
// valgrind's header, nothing.
//
// Thread safety: all.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#endif

namespace verbena::memcheck {

#ifdef VALGRIND_MAKE_MEM_DEFINED
// Only memcheck answers this request.
inline bool watches() {
    static const bool answer = [] {
        const char byte = 0;
        return VALGRIND_MAKE_MEM_DEFINED(&byte, sizeof byte) != 0;
    }();
    return answer;
}

inline void set_reporting(bool on) {
    if (!watches()) return;
    if (on)
        VALGRIND_ENABLE_ERROR_REPORTING;
    else
        VALGRIND_DISABLE_ERROR_REPORTING;
}

// Reports what is freed, in the name of who posts it.
inline void check_addressable(std::span<const iovec> pieces) {
    if (!watches()) return;
    for (const iovec& piece : pieces)
        static_cast<void>(VALGRIND_CHECK_MEM_IS_ADDRESSABLE(piece.iov_base, piece.iov_len));
}

inline void set_defined(const void* address, std::size_t length) {
    if (watches()) static_cast<void>(VALGRIND_MAKE_MEM_DEFINED(address, length));
}
#else
inline bool watches() { return false; }
inline void set_reporting(bool) {}
inline void check_addressable(std::span<const iovec>) {}
inline void set_defined(const void*, std::size_t) {}
#endif

// While one lives, memcheck reports nothing of this thread.
class Unjudged {
   public:
    Unjudged() { set_reporting(false); }
    ~Unjudged() { set_reporting(true); }
    Unjudged(const Unjudged&) = delete;
    Unjudged& operator=(const Unjudged&) = delete;
};

}  // namespace verbena::memcheck
