// The deliberate bugs (base/mutation.h) by name and number.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/mutation_names.h"

namespace verbena::sim {

// All that one thread shows, in the order of their numbers, which begin at 1.
std::vector<Mutation> all_mutations();
// By name or number; Mutation::none if there is none.
Mutation find_mutation(std::string_view name);

}  // namespace verbena::sim
