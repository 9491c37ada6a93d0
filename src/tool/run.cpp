#include "tool/run.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/features.h"
#include "faults/program.h"
#include "host/address_name.h"
#include "host/launch.h"
#include "interpose/interposed_calls.h"
#include "tool/installation.h"
#include "tool/leave.h"
#include "tool/plan.h"
#include "tool/program_check.h"
#include "tool/strict.h"
#include "tool/supervise.h"
#include "tool/words.h"

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

// Whether a file of that name could be made or written; errno says why not.
bool can_write(const std::string& file) {
    if (access(file.c_str(), F_OK) == 0) return access(file.c_str(), W_OK) == 0;
    std::size_t slash = file.rfind('/');
    std::string folder = slash == std::string::npos ? "." : file.substr(0, slash + 1);
    return access(folder.c_str(), W_OK | X_OK) == 0;
}

// A setting that is one of two words, the default first.
std::string unknown_word(const char* variable, const char* usual, const char* other) {
    const char* text = std::getenv(variable);
    if (!text || !*text || std::strcmp(text, usual) == 0 || std::strcmp(text, other) == 0) return {};
    return std::string(variable) + "=" + text + " is neither " + usual + " nor " + other;
}

// "level,file=PATH" for programs that change their folder.
std::string with_absolute_path(const std::string& log) {
    constexpr std::string_view kFile = ",file=";
    const std::size_t at = log.find(kFile);
    if (at == std::string::npos) return log;
    return log.substr(0, at + kFile.size()) + host::absolute_path(log.substr(at + kFile.size()));
}

// What is wrong with the settings that the program would get; empty if nothing is. The libraries, which
// cannot ask back, ignore what they do not understand.
std::string wrong_setting() {
    if (const char* text = std::getenv("VERBENA_LOG"); text && *text) {
        std::string_view level(text, std::strcspn(text, ","));
        std::string_view rest = std::string_view(text).substr(level.size());
        constexpr std::string_view kLevels[] = {"none", "error", "warn", "info", "debug"};
        if (std::find(std::begin(kLevels), std::end(kLevels), level) == std::end(kLevels) ||
            !(rest.empty() || rest.substr(0, 6) == ",file="))
            return "VERBENA_LOG=" + std::string(text) +
                   " is not none, error, warn, info or debug, with ,file=PATH if wanted";
        if (!rest.empty() && !can_write(std::string(rest.substr(6))))
            return "the log file " + std::string(rest.substr(6)) + ": " + std::strerror(errno);
    }
    std::string_view unknown;
    if (const char* text = std::getenv("VERBENA_DISABLE"); text) parse_features(text, &unknown);
    if (!unknown.empty())
        return "VERBENA_DISABLE names " + std::string(unknown) + ", which is none of " + feature_names();
    if (std::string wrong = unknown_word("VERBENA_LINK", "local", "wire"); !wrong.empty()) return wrong;
    if (std::string wrong = unknown_word("VERBENA_KEYS", "strict", "either"); !wrong.empty()) return wrong;
    if (const char* text = std::getenv("VERBENA_FABRIC"); text && *text && !host::is_fabric_name(text))
        return "VERBENA_FABRIC=" + std::string(text) +
               ": a fabric's name has 1 to 31 letters, digits, dots, dashes or underscores";
    if (const char* text = std::getenv("VERBENA_CAPTURE"); text && *text && !can_write(text))
        return "the capture file " + std::string(text) + ": " + std::strerror(errno);
    return {};
}

// What shows our devices in sysfs, /dev and the `rdma` command to programs that look there.
void add_view(const Installation& installation, Variables& variables) {
    if (!installation.view.empty()) {
        // See preloadable(): the libraries' folder is in LD_LIBRARY_PATH anyway.
        const bool splits = installation.view.find_first_of(" :") != std::string::npos;
        variables.emplace_back(
            "LD_PRELOAD",
            in_front(splits ? installation.view.substr(installation.view.rfind('/') + 1) : installation.view,
                     "LD_PRELOAD"));
        // AddressSanitizer wants to be the first library of a program and refuses to start otherwise.
        const char* options = std::getenv("ASAN_OPTIONS");
        if (!options || !std::strstr(options, "verify_asan_link_order"))
            variables.emplace_back("ASAN_OPTIONS", (options && *options ? std::string(options) + ":" : "") +
                                                       "verify_asan_link_order=0");
    }
    if (!installation.commands.empty()) {
        const char* path = std::getenv("PATH");
        variables.emplace_back("PATH", path && *path ? in_front(installation.commands, "PATH")
                                                     : installation.commands + ":" + kDefaultPath);
    }
}

// LD_PRELOAD knows no quoting; a library in such a folder is found by its bare name through LD_LIBRARY_PATH,
// into which the folder goes.
bool can_be_preloaded(const std::string& library) { return library.find_first_of(" :") == std::string::npos; }

std::string preloadable(const std::string& library) {
    if (can_be_preloaded(library)) return library;
    const std::size_t slash = library.rfind('/');
    setenv("LD_LIBRARY_PATH", in_front(library.substr(0, slash), "LD_LIBRARY_PATH").c_str(), 1);
    return library.substr(slash + 1);
}

void preload(const std::string& library, Variables& variables) {
    const std::string all = in_front(preloadable(library), "LD_PRELOAD");
    setenv("LD_PRELOAD", all.c_str(), 1);  // what comes later goes in front of it
    variables.emplace_back("LD_PRELOAD", all);
}

// Ours are there before the loader looks for them, behind what else is preloaded. False: their names do not
// allow it, and those found by a bare name would be the others.
bool preload_libraries() {
    const std::string folder = find_installation().libraries;
    if (!can_be_preloaded(folder)) return false;
    std::string all = std::getenv("LD_PRELOAD") ? std::getenv("LD_PRELOAD") : "";
    for (const char* const library : kLibraries) all += (all.empty() ? "" : ":") + folder + library;
    setenv("LD_PRELOAD", all.c_str(), 1);
    return true;
}

// The program's sockets become rsockets. False, and told, if the library is missing.
bool add_sockets(const Installation& installation, Variables& variables) {
    if (installation.sockets.empty()) {
        std::fprintf(stderr, "verbena: librspreload.so not found beside the libraries\n");
        return false;
    }
    preload(installation.sockets, variables);
    return true;
}

// The library that looks at calls, and what it is to do. False, and told, if it is missing.
bool add_interposer(const RunOptions& options, const Installation& installation, Variables& variables) {
    if (options.interposer.empty()) return true;
    if (installation.interposer.empty()) {
        std::fprintf(stderr, "verbena: libverbena-interpose.so not found beside the libraries\n");
        return false;
    }
    preload(installation.interposer, variables);
    variables.insert(variables.end(), options.interposer.begin(), options.interposer.end());
    return true;
}

// Over the distribution's libraries: nothing of ours but the interposer.
int system_environment(const RunOptions& options, const Installation& installation, Variables& variables) {
    if (!options.capture.empty() || options.sockets) {
        std::fprintf(stderr,
                     "verbena: --capture and --sockets need Verbena's libraries; --system is without\n");
        return 2;
    }
    if (!options.interposer.empty() && !can_be_preloaded(installation.interposer)) {
        std::fprintf(stderr,
                     "verbena: --system preloads %s, and LD_PRELOAD takes no names with spaces or colons: "
                     "install Verbena in another folder\n",
                     installation.interposer.c_str());
        return 1;
    }
    if (!options.log.empty()) variables.emplace_back("VERBENA_LOG", with_absolute_path(options.log));
    leave_verbena(installation, !options.interposer.empty());
    if (!add_interposer(options, installation, variables)) return 1;
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    return 0;
}

// Sets the environment of the program and lists it; 0, or an exit status when the reason was told.
int environment(const RunOptions& options, Variables& variables) {
    Installation installation = find_installation();
    if (!installation.obstacle.empty()) {
        std::fprintf(stderr, "verbena: %s\n", installation.obstacle.c_str());
        return 1;
    }
    if (options.system) return system_environment(options, installation, variables);
    if (installation.libraries.empty() || installation.daemon.empty()) {
        std::fprintf(stderr,
                     "verbena: %s not found beside this command; build the project or install it again\n",
                     installation.libraries.empty() ? "libibverbs.so.1 and librdmacm.so.1" : "verbenad");
        return 1;
    }
    Variables preloads;
    if (options.sockets && !add_sockets(installation, preloads)) return 1;
    if (!add_interposer(options, installation, preloads)) return 1;
    variables = {
        {"LD_LIBRARY_PATH", in_front(installation.libraries, "LD_LIBRARY_PATH")},
        {"LIBRARY_PATH",
         in_front(installation.libraries, "LIBRARY_PATH")},  // for compilers: -lrdmacm -libverbs
        {"VERBENA_DAEMON", installation.daemon},
    };
    if (!installation.headers.empty())
        variables.emplace_back("CPATH", in_front(installation.headers, "CPATH"));  // <verbena.h>
    variables.insert(variables.end(), preloads.begin(), preloads.end());
    auto add = [&](const char* name, const std::string& value) {
        if (!value.empty()) variables.emplace_back(name, value);
    };
    add("VERBENA_FABRIC", options.fabric);
    add("VERBENA_LOG", with_absolute_path(options.log));
    add("VERBENA_CAPTURE", host::absolute_path(options.capture));
    add("VERBENA_DISABLE", options.disable);
    const char* disabled = options.disable.empty() ? std::getenv("VERBENA_DISABLE") : options.disable.c_str();
    if (parse_features(disabled ? disabled : "").view) add_view(installation, variables);
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    if (std::string wrong = wrong_setting(); !wrong.empty()) {
        std::fprintf(stderr, "verbena: %s\n", wrong.c_str());
        return 2;
    }
    return 0;
}

// Over other libraries there is nobody but the interposer.
bool can_be_interposed(const std::vector<faults::PlannedRule>& rules) {
    for (const faults::PlannedRule& each : rules) {
        const std::string call(each.rule.call_name());
        if (each.rule.subject != faults::Subject::call)
            std::fprintf(stderr,
                         "verbena: the plan of faults: '%s' needs Verbena's libraries; with --system calls "
                         "can fail, nothing else\n",
                         each.text.c_str());
        else if (!interpose::stands_in_front_of(call))
            std::fprintf(stderr,
                         "verbena: the plan of faults: '%s' needs Verbena's libraries; with --system nothing "
                         "stands in front of %s\n",
                         each.text.c_str(), call.c_str());
        else
            continue;
        return false;
    }
    return true;
}

}  // namespace

int prepare(const RunOptions& options, const std::vector<std::string>& command) {
    Variables variables;
    if (int status = environment(options, variables)) return status;
    const std::string file = find_program(command[0]);
    if (file.empty()) return 0;
    const char* what = "will not use Verbena's libraries";
    std::string why = options.system ? std::string() : why_not_ours(file);
    if (why.empty() && !options.system && prefers_others(file) && !preload_libraries())
        why = "its RPATH leads to other RDMA libraries, and comes before LD_LIBRARY_PATH";
    if (why.empty() && !options.interposer.empty()) {
        what = "will show none of its calls";
        why = why_not_preloaded(file);
    }
    if (!why.empty()) std::fprintf(stderr, "verbena: %s %s: %s\n", command[0].c_str(), what, why.c_str());
    return 0;
}

int ActivePlan::begin(RunOptions& options) {
    if (!options.faults) return 0;
    std::vector<faults::PlannedRule> rules;
    if (!read_plan(*options.faults, rules)) return 2;
    if (options.system && !can_be_interposed(rules)) return 2;
    board_ = make_board(path_);
    if (!board_) return 1;
    if (!add_rules(*board_, rules)) return 2;
    if (options.system)
        options.interposer.emplace_back(faults::kInterposedVariable, path_);
    else
        setenv(faults::kVariable, path_.c_str(), 1);
    return 0;
}

int ActivePlan::end() { return !board_ || tell_what_never_fired(*board_) ? 0 : kNeverFired; }

ActivePlan::~ActivePlan() {
    if (board_) unlink(path_.c_str());
}

namespace {

int run_supervised(RunOptions options, const std::vector<std::string>& command) {
    int status = 0, instead_of_0 = 0;
    {
        ActivePlan plan;
        StrictReport report;
        if (options.strict) {
            if (!report.open()) return 1;
            options.interposer = {{"VERBENA_STRICT", "1"}, {"VERBENA_STRICT_REPORT", report.path()}};
        }
        if (int wrong = plan.begin(options)) return wrong;
        if (int wrong = prepare(options, command)) return wrong;
        status = run_and_wait(command);
        instead_of_0 = plan.end();
        if (options.strict)
            if (int found = report.end()) instead_of_0 = found;
    }
    return end_as(status, instead_of_0);
}

}  // namespace

int run(const RunOptions& options, const std::vector<std::string>& command) {
    if (options.faults || options.strict) return run_supervised(options, command);
    if (int status = prepare(options, command)) return status;
    return become(command);
}

int print_environment(const RunOptions& options) {
    Variables variables;
    if (int status = environment(options, variables)) return status;
    for (const auto& [name, value] : variables)
        std::printf("export %s=%s;\n", name.c_str(), shell_word(value).c_str());
    return 0;
}

}  // namespace verbena::tool
