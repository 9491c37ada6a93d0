#include "tool/fault.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/printable.h"
#include "base/reason.h"
#include "faults/words.h"
#include "tool/json_text.h"
#include "tool/look.h"
#include "tool/plan.h"

namespace verbena::tool {
namespace {

using Json = nlohmann::ordered_json;

using Which = std::optional<std::string>;

bool is_all(const Which& which) { return !which || *which == "all"; }

// The programs that are meant; false when it was told that there is none.
bool find_programs(Look& look, const Which& which, std::vector<observe::Program>& out) {
    observe::Snapshot snapshot;
    if (look.take(observe::Depth::counters, snapshot) != 0) {
        std::fprintf(stderr, "verbena: %s\n", last_reason());
        return false;
    }
    const bool all = is_all(which);
    const std::uint64_t pid = all ? 0 : faults::number_of(*which).value_or(0);
    for (observe::Program& program : snapshot.programs)
        if (all || program.pid == pid) out.push_back(std::move(program));
    if (!out.empty() || !which) return true;
    tell_that_there_is_no_program(all ? "" : *which);
    return false;
}

// The program's plan, made if `fd` is one for it. nullptr: it has none, or the reason was told.
std::unique_ptr<faults::Board> plan_of(Look& look, const observe::Program& program, int fd) {
    host::FaultsReply reply;
    int received = -1;
    if (look.ask(host::Command::faults, host::FaultsRequest{program.session, 0}, reply, fd, &received) != 0) {
        std::fprintf(stderr, "verbena: pid %u: %s\n", program.pid, last_reason());
        return nullptr;
    }
    if (received < 0) return nullptr;
    auto board = faults::Board::from(received);
    close(received);
    if (!board) std::fprintf(stderr, "verbena: pid %u: %s\n", program.pid, last_reason());
    return board;
}

// Programs look at their plans again.
void tell(Look& look, const observe::Program& program) {
    host::FaultsReply reply;
    int received = -1;
    look.ask(host::Command::faults, host::FaultsRequest{program.session, 1}, reply, -1, &received);
    if (received >= 0) close(received);
}

int list(Look& look, const std::vector<observe::Program>& programs, bool json) {
    Json out = Json::array();
    for (const observe::Program& program : programs) {
        const auto board = plan_of(look, program, -1);
        for (unsigned index = 0; board && index < board->count(); index++)
            out.push_back({{"pid", program.pid},
                           {"comm", program.tables.command},
                           {"fault", board->text(index)},
                           {"active", board->active(index)},
                           {"seen", board->seen(index)},
                           {"fired", board->fired(index)}});
    }
    if (json)
        std::printf("%s\n", json_text(out, 2).c_str());
    else
        for (const Json& line : out)
            std::printf("pid %s comm %s fired %s seen %s%s: %s\n", line["pid"].dump().c_str(),
                        line["comm"].get<std::string>().c_str(), line["fired"].dump().c_str(),
                        line["seen"].dump().c_str(), line["active"].get<bool>() ? "" : " cleared",
                        printable(line["fault"].get<std::string>()).c_str());
    return 0;
}

int list_calls() {
    for (const std::string_view call : faults::failing_calls())
        std::printf("%.*s\n", static_cast<int>(call.size()), call.data());
    return 0;
}

int complain(const char* what) {
    std::fprintf(stderr, "verbena: %s (verbena fault --help tells more)\n", what);
    return 2;
}

}  // namespace

int fault(const FaultOptions& options) {
    if (options.calls) return list_calls();
    const bool adds = options.plan.has_value();
    if (options.list + options.clear + adds != 1)
        return complain("a pid (or all) and a plan of faults, or one of --list, --clear, --calls");
    if (!is_all(options.program) && !faults::number_of(*options.program))
        return complain(("'" + printable(*options.program) + "' is no pid, and not 'all'").c_str());
    std::vector<faults::PlannedRule> rules;
    if (adds && !read_plan(*options.plan, rules)) return 2;
    Look look;
    std::vector<observe::Program> programs;
    if (!find_programs(look, options.program, programs)) return 1;
    if (options.list) return list(look, programs, options.json);
    // For those that have none yet: one plan for all of them.
    const auto fresh = adds ? faults::Board::create("") : nullptr;
    std::vector<std::unique_ptr<faults::Board>> boards;
    for (const observe::Program& program : programs) {
        auto board = plan_of(look, program, fresh ? fresh->fd() : -1);
        if (!board) {
            if (adds) return 1;
            continue;
        }
        const bool known = std::any_of(boards.begin(), boards.end(),
                                       [&](const auto& each) { return each->is_same_as(*board); });
        if (!known && adds && !add_rules(*board, rules)) return 1;
        if (!known && options.clear) board->clear();
        boards.push_back(std::move(board));
    }
    for (const observe::Program& program : programs) tell(look, program);
    return 0;
}

}  // namespace verbena::tool
