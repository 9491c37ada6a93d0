// verbena run --strict: what the interposer has found, and what the program has left, when it has ended.
#pragma once

#include <string>

namespace verbena::tool {

// The exit status if the program succeeded and something was found.
inline constexpr int kFound = 124;

// The file to which the programs append what they find.
class StrictReport {
   public:
    ~StrictReport();
    bool open();  // false when the reason was told
    const std::string& path() const { return path_; }
    // Writes the table of what is left to stderr; kFound if there was anything in the report, otherwise 0.
    int end();

   private:
    std::string path_;
    int fd_ = -1;
};

}  // namespace verbena::tool
