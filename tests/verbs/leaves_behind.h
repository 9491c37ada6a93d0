// What a test leaves to the library on purpose, as programs do that end without destroying, is no leak.
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define VERBENA_LEAKS_ARE_FOUND
#endif
#endif

#ifdef VERBENA_LEAKS_ARE_FOUND
#include <sanitizer/lsan_interface.h>

namespace verbena::verbs_test {
using LeavesBehind = __lsan::ScopedDisabler;
}
#else
namespace verbena::verbs_test {
struct LeavesBehind {
    LeavesBehind() {}
};
}  // namespace verbena::verbs_test
#endif
