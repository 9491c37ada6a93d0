#include "tool/strict.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trace/tail.h"

namespace verbena::tool {
namespace {

using trace::Json;

constexpr std::size_t kLevels = 3;  // of callers that are shown

// What addr2line knows: "make (program.c:12)". Empty without it, or without debug information.
std::string source_line(const std::string& file, std::uint64_t offset) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return {};
    char number[32];
    std::snprintf(number, sizeof number, "0x%llx", static_cast<unsigned long long>(offset));
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        const int nothing = open("/dev/null", O_WRONLY);
        dup2(nothing, STDERR_FILENO);
        unsetenv("LD_PRELOAD");
        unsetenv("LD_LIBRARY_PATH");
        execlp("addr2line", "addr2line", "-f", "-C", "-s", "-e", file.c_str(), number,
               static_cast<char*>(nullptr));
        _exit(127);
    }
    close(ends[1]);
    std::string text;
    char buffer[512];
    for (ssize_t size; (size = read(ends[0], buffer, sizeof buffer)) > 0;)
        text.append(buffer, static_cast<std::size_t>(size));
    close(ends[0]);
    const std::size_t end = text.find('\n');
    if (end == std::string::npos || text.substr(0, end) == "??") return {};
    std::string line = text.substr(end + 1, text.find('\n', end + 1) - end - 1);
    line = line.substr(0, line.find(" ("));  // a discriminator
    return text.substr(0, end) + (line.rfind("??", 0) == 0 ? "" : " (" + line + ")");
}

std::string place(const Json& frame, std::map<std::string, std::string>& known) {
    const std::string file = frame.value("file", "?");
    const auto offset = frame.value("offset", std::uint64_t{0});
    char number[32];
    std::snprintf(number, sizeof number, "+0x%llx", static_cast<unsigned long long>(offset));
    const auto [found, fresh] = known.try_emplace(file + number);
    if (!fresh) return found->second;
    std::string& text = found->second = source_line(file, offset);
    if (text.empty()) text = frame.value("function", "");
    if (text.empty()) text = file.substr(file.rfind('/') + 1) + number;
    return text;
}

std::string places(const Json& left, std::map<std::string, std::string>& known) {
    std::string text;
    std::size_t shown = 0;
    for (const Json& frame : left.value("from", Json::array())) {
        const std::string next = place(frame, known);
        if (shown == kLevels || next.find("__libc_start") != std::string::npos) break;
        text += (shown++ ? " < " : "") + next;
        if (next.rfind("main ", 0) == 0 || next == "main") break;
    }
    return text;
}

}  // namespace

int StrictReport::end() {
    std::map<std::string, std::string> known;
    bool found = false, heading = false;
    std::string rest;
    char buffer[4096];
    for (ssize_t size, at = 0; (size = pread(file_.fd(), buffer, sizeof buffer, at)) > 0; at += size)
        rest.append(buffer, static_cast<std::size_t>(size));
    for (std::size_t begin = 0, end; (end = rest.find('\n', begin)) != std::string::npos; begin = end + 1) {
        const Json line = Json::parse(rest.substr(begin, end - begin), nullptr, false);
        if (!line.is_object()) continue;
        found = true;
        if (line.value("k", "") != "left") continue;
        if (!std::exchange(heading, true))
            std::fprintf(stderr, "verbena strict: not destroyed at the end:\n%8s  %-14s %5s  %s\n", "process",
                         "object", "count", "made in");
        std::fprintf(stderr, "%8lld  %-14s %5llu  %s\n",
                     static_cast<long long>(line.value("pid", std::int64_t{0})),
                     line.value("kind", "?").c_str(),
                     static_cast<unsigned long long>(line.value("count", std::uint64_t{0})),
                     places(line, known).c_str());
    }
    return found ? kFound : 0;
}

}  // namespace verbena::tool
