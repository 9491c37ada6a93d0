#include "tool/plan.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>

#include "base/printable.h"
#include "base/reason.h"
#include "tool/scratch_file.h"

namespace verbena::tool {

bool read_plan(const std::string& given, std::vector<faults::PlannedRule>& rules) {
    std::string text = given, from;
    struct stat status {};
    if (stat(given.c_str(), &status) == 0 && !S_ISDIR(status.st_mode)) {
        constexpr std::size_t kMost = 1 << 20;
        std::ifstream file(given);
        text.resize(kMost + 1);
        file.read(text.data(), static_cast<std::streamsize>(text.size()));
        if (!file.is_open() || file.bad() || file.gcount() > static_cast<std::streamsize>(kMost)) {
            std::fprintf(stderr, "verbena: the plan %s %s\n", printable(given).c_str(),
                         file.gcount() > 0 ? "is longer than 1 MiB" : "cannot be read");
            return false;
        }
        text.resize(static_cast<std::size_t>(file.gcount()));
        from = given + ", ";
    }
    faults::PlanError error;
    if (faults::parse_plan(text, rules, error)) return true;
    std::fprintf(stderr, "verbena: the plan of faults: %s\n", printable(from + error.to_string()).c_str());
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
    remove_abandoned_files();
    for (const std::string& folder : scratch_folders())
        for (unsigned attempt = 0; attempt < kHoldAttempts; attempt++) {
            path = folder + "/verbena-faults." + std::to_string(getpid()) + "." + std::to_string(random()) +
                   kHeld;
            auto board = faults::Board::create(path);
            if (!board) break;
            if (hold(board->fd())) return board;
        }
    say_no_folder("the plan of faults", last_reason());
    return nullptr;
}

}  // namespace verbena::tool
