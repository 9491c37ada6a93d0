// Stands where other threads may change what is looked at next: a test plays their part there, in every
// interleaving. It exists only in binaries that are compiled with VERBENA_OTHERS, all of their files;
// elsewhere the call disappears.
#pragma once

#ifdef VERBENA_OTHERS
#include <functional>
#endif

namespace verbena {

#ifdef VERBENA_OTHERS
inline std::function<void()>& others() {
    static std::function<void()> act;
    return act;
}
inline void others_act() {
    if (others()) others()();
}
#else
constexpr void others_act() {}
#endif

}  // namespace verbena
