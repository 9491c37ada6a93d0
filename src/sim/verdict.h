// What became of a run: the first violation found, in words. Later ones are usually its consequences.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>

#include "base/time.h"

namespace verbena::sim {

class Verdict {
   public:
    bool good() const { return text_.empty(); }
    const std::string& text() const { return text_; }

    [[gnu::format(printf, 3, 4)]] void violation(Time now, const char* format, ...) {
        if (!text_.empty()) return;
        char buffer[600];
        va_list arguments;
        va_start(arguments, format);
        std::vsnprintf(buffer, sizeof buffer, format, arguments);
        va_end(arguments);
        char stamp[40];
        std::snprintf(stamp, sizeof stamp, "at %.6f s: ", static_cast<double>(now) / kSecond);
        text_ = std::string(stamp) + buffer;
    }

   private:
    std::string text_;
};

}  // namespace verbena::sim
