// verbena run --strict: what the interposer has found, and what the program has left, when it has ended.
#pragma once

#include <string>

#include "tool/scratch_file.h"

namespace verbena::tool {

// The exit status if the program succeeded and something was found.
inline constexpr int kFound = 124;

// The file to which the programs append what they find.
class StrictReport {
   public:
    bool open() { return file_.open("strict"); }  // false when the reason was told
    const std::string& path() const { return file_.path(); }
    // Writes the table of what is left to stderr; kFound if there was anything in the report, otherwise 0.
    int end();

   private:
    ScratchFile file_;
};

}  // namespace verbena::tool
