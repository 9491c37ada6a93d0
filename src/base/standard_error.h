// Standard error of somebody else's program. It may have been closed, and a file of the program's have its
// number: only what was there when the library was loaded, or a terminal, is written to unasked.
//
// Thread safety: remember_standard_error() before all others.
#pragma once

#include <string_view>

namespace verbena {

void remember_standard_error();

// With one write, so that lines of several processes do not mix.
void tell_user(std::string_view line);

}  // namespace verbena
