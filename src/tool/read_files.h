// What handshake and report show: recordings and captures, merged.
#pragma once

#include <string>
#include <vector>

#include "report/recording.h"

namespace verbena::tool {

// False when it was told what is wrong. What a file lacks is told, too.
bool read_files(const std::vector<std::string>& files, report::Recording& recording);

}  // namespace verbena::tool
