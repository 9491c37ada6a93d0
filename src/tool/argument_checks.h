// What CLI11 asks of an argument: what is wrong with it, or nothing.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string>
#include <system_error>

namespace verbena::tool {

// The whole text as a number; false if it is none.
template <class Number>
bool is_number(const std::string& text, Number& value) {
    const char* const behind = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), behind, value);
    return error == std::errc() && end == behind;
}

// A number within limits; CLI::Range() takes what is no number (nan) for one.
inline auto between(double least, double most) {
    return [=](const std::string& text) {
        double value = 0;
        if (is_number(text, value) && value >= least && value <= most) return std::string();
        char wrong[80];
        std::snprintf(wrong, sizeof wrong, " is no number from %g to %g", least, most);
        return text + wrong;
    };
}

// What is counted from 1.
inline std::string wrong_count(const std::string& text) {
    std::uint32_t count = 0;
    return is_number(text, count) && count >= 1 ? std::string() : text + " is no number from 1 on";
}

inline std::string wrong_language(const std::string& text) {
    return text == "en" || text == "zh" ? std::string() : text + " is neither en nor zh";
}

// As from a variable that is not set: what is meant is not the same as without the option.
inline std::string wrong_if_empty(const std::string& text) {
    return text.empty() ? "it is empty" : std::string();
}

}  // namespace verbena::tool
