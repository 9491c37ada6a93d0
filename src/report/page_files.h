// The files of page/, compiled in.
#pragma once

namespace verbena::report {

extern const char* const kPageHtml;
extern const char* const kPageCss;
extern const char* const kPageScript;
extern const char* const kLadderCss;

}  // namespace verbena::report
