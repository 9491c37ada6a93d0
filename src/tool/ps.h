// verbena ps: the programs and what they have.
#pragma once

namespace verbena::tool {

// Returns the exit status.
int show_programs(bool json);

}  // namespace verbena::tool
