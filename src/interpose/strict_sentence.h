// printf into a string, for what strict mode tells.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>

namespace verbena::interpose {

[[gnu::format(printf, 1, 2)]] inline std::string sentence(const char* format, ...) {
    char text[400];
    std::va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return text;
}

}  // namespace verbena::interpose
