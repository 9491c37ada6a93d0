// The slots of a context that nothing implements yet: each is filled with a function of its own type that
// answers EOPNOTSUPP, so that no program calls through NULL.
#pragma once

#include "verbs/abi/verbs_context_ex.h"

namespace verbena::verbs {

// Leaves slots that are set as they are.
void fill_unsupported(abi::VerbsContextEx& context);

}  // namespace verbena::verbs
