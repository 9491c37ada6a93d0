#include "tool/plan.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <system_error>

#include "base/reason.h"
#include "tool/scratch_file.h"

namespace verbena::tool {
namespace {

std::string board_prefix(pid_t pid) { return "verbena-faults." + std::to_string(pid) + "."; }

}  // namespace

bool read_plan(const std::string& given, std::vector<faults::PlannedRule>& rules) {
    std::string text = given, from;
    struct stat status {};
    if (stat(given.c_str(), &status) == 0 && !S_ISDIR(status.st_mode)) {
        std::ifstream file(given);
        text.assign(std::istreambuf_iterator<char>(file), {});
        if (!file) {
            std::fprintf(stderr, "verbena: the plan %s cannot be read\n", given.c_str());
            return false;
        }
        from = given + ", ";
    }
    faults::PlanError error;
    if (faults::parse_plan(text, rules, error)) return true;
    std::fprintf(stderr, "verbena: the plan of faults: %s%s\n", from.c_str(), error.to_string().c_str());
    return false;
}

bool add_rules(faults::Board& board, const std::vector<faults::PlannedRule>& rules) {
    for (const faults::PlannedRule& each : rules)
        if (!board.add(each.rule, each.text)) {
            std::fprintf(stderr,
                         "verbena: a plan has room for %u faults, those that were cleared among them\n",
                         faults::kMaxRules);
            return false;
        }
    return true;
}

std::unique_ptr<faults::Board> make_board(std::string& path) {
    std::random_device random;
    for (const std::string& folder : scratch_folders()) {
        path = folder + "/" + board_prefix(getpid()) + std::to_string(random());
        if (auto board = faults::Board::create(path)) return board;
    }
    std::fprintf(stderr, "verbena: no folder for the plan of faults (XDG_RUNTIME_DIR, /dev/shm, /tmp): %s\n",
                 last_reason());
    return nullptr;
}

void remove_boards_of(pid_t pid) {
    for (const std::string& folder : scratch_folders()) {
        std::error_code error;
        for (const auto& entry : std::filesystem::directory_iterator(folder, error))
            if (entry.path().filename().string().rfind(board_prefix(pid), 0) == 0)
                std::filesystem::remove(entry.path(), error);
    }
}

}  // namespace verbena::tool
