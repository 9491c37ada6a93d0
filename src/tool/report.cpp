#include "tool/report.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "report/page.h"
#include "tool/read_files.h"

namespace verbena::tool {
namespace {

int complain(const std::string& what) {
    std::fprintf(stderr, "verbena: %s\n", what.c_str());
    return 1;
}

bool is_same_file(const std::string& one, const std::string& other) {
    std::error_code none;
    return std::filesystem::equivalent(one, other, none);
}

}  // namespace

int report(const ReportOptions& options) {
    const std::string name = !options.output.empty() ? options.output : options.picture ? "-" : "report.html";
    for (const std::string& file : options.files)
        if (is_same_file(file, name)) {
            complain(name + " is one of the files to be shown; the page needs another name");
            return 2;
        }
    report::Recording recording;
    if (!read_files(options.files, recording)) return 1;
    std::string error;
    const meanings::Language language = meanings::language_of(options.language);
    const std::string made = options.picture
                                 ? report::make_picture(recording, language, options.number, error)
                                 : report::make_page(recording, language);
    if (made.empty()) return complain(options.files[0] + ": " + error);
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
