#include "tool/run.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tool/installation.h"
#include "tool/program_check.h"

namespace verbena::tool {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

std::string in_front(const std::string& folder, const char* variable) {
    const char* old = std::getenv(variable);
    if (!old || !*old) return folder;
    if (std::string(":") + old + ":" == ":" + folder + ":" ||
        std::strncmp(old, (folder + ":").c_str(), folder.size() + 1) == 0)
        return old;  // already there: verbena run inside verbena run
    return folder + ":" + old;
}

bool environment(const RunOptions& options, Variables& variables) {
    Installation installation = find_installation();
    if (installation.libraries.empty() || installation.daemon.empty()) {
        std::fprintf(stderr,
                     "verbena: %s not found beside this command; build the project or install it again\n",
                     installation.libraries.empty() ? "libibverbs.so.1 and librdmacm.so.1" : "verbenad");
        return false;
    }
    variables = {
        {"LD_LIBRARY_PATH", in_front(installation.libraries, "LD_LIBRARY_PATH")},
        {"LIBRARY_PATH",
         in_front(installation.libraries, "LIBRARY_PATH")},  // for compilers: -lrdmacm -libverbs
        {"VERBENA_DAEMON", installation.daemon},
    };
    auto add = [&](const char* name, const std::string& value) {
        if (!value.empty()) variables.emplace_back(name, value);
    };
    add("VERBENA_FABRIC", options.fabric);
    add("VERBENA_LOG", options.log);
    add("VERBENA_CAPTURE", options.capture);
    add("VERBENA_DISABLE", options.disable);
    return true;
}

std::string shell_quoted(const std::string& text) {
    std::string quoted = "'";
    for (char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return quoted + "'";
}

}  // namespace

int run(const RunOptions& options, const std::vector<std::string>& command) {
    Variables variables;
    if (!environment(options, variables)) return 1;
    std::string file = find_program(command[0]);
    if (!file.empty())
        if (std::string why = why_not_ours(file); !why.empty())
            std::fprintf(stderr, "verbena: %s will not use Verbena's libraries: %s\n", command[0].c_str(),
                         why.c_str());
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    std::vector<char*> arguments;
    arguments.reserve(command.size() + 1);
    for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    int error = errno;
    std::fprintf(stderr, "verbena: %s: %s\n", command[0].c_str(), std::strerror(error));
    return error == ENOENT ? 127 : 126;
}

int print_environment(const RunOptions& options) {
    Variables variables;
    if (!environment(options, variables)) return 1;
    for (const auto& [name, value] : variables)
        std::printf("export %s=%s;\n", name.c_str(), shell_quoted(value).c_str());
    return 0;
}

}  // namespace verbena::tool
