#include "tool/leave.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>

#include "faults/program.h"

namespace verbena::tool {
namespace {

namespace fs = std::filesystem;

// As the commands that watch a program tell the interposer what to do.
bool is_watched() {
    for (const char* name : {"VERBENA_TRACE_EVENTS", "VERBENA_STRICT", faults::kInterposedVariable})
        if (const char* value = std::getenv(name); value && *value) return true;
    return false;
}

// Takes those words out of a variable; its separators stay as they are between the others.
void take_out(const char* variable, std::string_view separators,
              const std::function<bool(std::string_view)>& goes) {
    const char* old = std::getenv(variable);
    if (!old) return;
    std::string left;
    bool any = false, gone = false;
    const std::string_view text = old;
    for (std::size_t at = 0, end; at <= text.size(); at = end + 1) {
        end = std::min(text.find_first_of(separators, at), text.size());
        const std::string_view word = text.substr(at, end - at);
        if (!word.empty() && goes(word)) {
            gone = true;
            continue;
        }
        if (any) left += text[at - 1];
        left += word;
        any = true;
    }
    if (!gone) return;
    if (left.empty())
        unsetenv(variable);
    else
        setenv(variable, left.c_str(), 1);
}

// The same file or folder, however it is written; a bare name is one that the loader finds in our folder.
bool is_same(std::string_view word, const std::string& own) {
    if (own.empty()) return false;
    if (word == own || word == std::string_view(own).substr(own.rfind('/') + 1)) return true;
    std::error_code error;
    return word.find('/') != std::string_view::npos && fs::equivalent(fs::path(word), own, error);
}

void take_out_folder(const char* variable, const std::string& own) {
    take_out(variable, ":", [&](std::string_view word) { return word[0] == '/' && is_same(word, own); });
}

}  // namespace

void leave_verbena(const Installation& installation, bool own_interposer) {
    const bool interposer_goes = own_interposer || !is_watched();
    take_out("LD_PRELOAD", " :", [&](std::string_view word) {
        for (const char* const library : kLibraries)
            if (is_same(word, installation.libraries + library)) return true;
        return is_same(word, installation.view) || is_same(word, installation.sockets) ||
               (interposer_goes && is_same(word, installation.interposer));
    });
    take_out_folder("LD_LIBRARY_PATH", installation.libraries);
    take_out_folder("LIBRARY_PATH", installation.libraries);
    take_out_folder("CPATH", installation.headers);
    take_out_folder("PATH", installation.commands);
}

}  // namespace verbena::tool
