#include "tool/read_files.h"

#include <cstdio>

#include "base/printable.h"

namespace verbena::tool {

bool read_files(const std::vector<std::string>& files, report::Recording& recording) {
    std::string error;
    for (const std::string& file : files)
        if (!report::read_recording(file, recording, error)) {
            std::fprintf(stderr, "verbena: %s\n", printable(error).c_str());
            return false;
        }
    for (const std::string& remark : recording.remarks)
        std::fprintf(stderr, "verbena: %s\n", printable(remark).c_str());
    report::merge_recording(recording);
    return true;
}

}  // namespace verbena::tool
