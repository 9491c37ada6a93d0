// verbena_build_id; and the place where the layouts that programs rely on are checked at compile time.
#include "verbs/abi/verbs_context_ex.h"

extern "C" const char* verbena_build_id() { return VERBENA_BUILD_ID; }
