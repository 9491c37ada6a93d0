#include "tool/report.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "report/page.h"

namespace verbena::tool {
namespace {

int complain(const std::string& what) {
    std::fprintf(stderr, "verbena: %s\n", what.c_str());
    return 1;
}

}  // namespace

int report(const ReportOptions& options) {
    report::Recording recording;
    std::string error;
    for (const std::string& file : options.files)
        if (!report::read_recording(file, recording, error)) return complain(error);
    report::merge_recording(recording);
    const meanings::Language language = meanings::language_of(options.language);
    const std::string made = options.picture
                                 ? report::make_picture(recording, language, options.number, error)
                                 : report::make_page(recording, language);
    if (made.empty()) return complain(options.files[0] + ": " + error);
    const std::string name = !options.output.empty() ? options.output : options.picture ? "-" : "report.html";
    std::FILE* file = name == "-" ? stdout : std::fopen(name.c_str(), "w");
    if (!file) return complain(name + ": " + std::strerror(errno));
    const bool written = std::fwrite(made.data(), 1, made.size(), file) == made.size();
    if (std::fflush(file) != 0 || !written) return complain(name + ": " + std::strerror(errno));
    if (file != stdout) {
        std::fclose(file);
        std::fprintf(stderr, "verbena: wrote %s\n", name.c_str());
    }
    return 0;
}

}  // namespace verbena::tool
