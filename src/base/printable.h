// Text of strangers, such as a program's name, for a terminal, which would obey control characters.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

namespace verbena {

inline std::string printable(std::string text) {
    std::replace_if(
        text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
    return text;
}

}  // namespace verbena
