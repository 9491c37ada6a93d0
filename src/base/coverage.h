// Points inside the protocol code that the simulator counts, where watching packets and events does not tell.
// Like the deliberate bugs (mutation.h) they exist only in binaries built with VERBENA_MUTATIONS; elsewhere
// kCoverage is a constant false and the branch disappears.
//
// Thread safety: each thread has its own observer.
#pragma once

#include <cstdint>

namespace verbena {

class CoverageObserver {
   public:
    virtual ~CoverageObserver() = default;
    // A CM message (its attribute id) reached a connection in `state` (cm::ConnectionState), or none (-1).
    virtual void cm_message(std::uint16_t attribute, int state) = 0;
};

#ifdef VERBENA_MUTATIONS
inline constexpr bool kCoverage = true;
#else
inline constexpr bool kCoverage = false;
#endif

inline thread_local CoverageObserver* coverage_observer = nullptr;

}  // namespace verbena
