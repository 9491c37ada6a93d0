// verbena report: a page, or a picture, of what recordings and captures have.
#pragma once

#include <string>
#include <vector>

namespace verbena::tool {

struct ReportOptions {
    std::vector<std::string> files;  // .vrec or .pcapng
    std::string output;              // empty: report.html, with --svg standard output; -: standard output
    std::string language;            // en, zh; empty: as LANG says
    bool picture = false;            // as SVG, in place of the page: of the conversation with this number
    unsigned number = 1;
};

// Returns the exit status: 1 if a file cannot be used.
int report(const ReportOptions& options);

}  // namespace verbena::tool
