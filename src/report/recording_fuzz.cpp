// Any bytes as a recording, and as two, become a page or are refused with a sentence.

#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include "report/page.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace verbena::report;
    std::string first(data, data + size), second, error;
    if (const std::size_t cut = first.find('\0'); cut != std::string::npos && first[0] == '{') {
        second = first.substr(cut + 1);
        first.resize(cut);
    }
    Recording recording;
    std::istringstream one(first), other(second);
    const bool good = read_recording("first", one, recording, error) &&
                      (second.empty() || read_recording("second", other, recording, error));
    if (!good && error.empty()) std::abort();
    if (!good) return 0;
    merge_recording(recording);
    if (make_page(recording, verbena::meanings::chinese).find("</html>") == std::string::npos) std::abort();
    make_picture(recording, verbena::meanings::english, 1, error);
    return 0;
}
