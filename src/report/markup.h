// Text of strangers in HTML and SVG.
#pragma once

#include <string>

namespace verbena::report {

// & < > " as entities; what XML forbids as a dot, what is no UTF-8 as U+FFFD.
std::string escaped(const std::string& text);

}  // namespace verbena::report
