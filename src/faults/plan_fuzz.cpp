// Any text as a plan: what is accepted is accepted again as it was kept, and means the same; what is refused
// names a place inside.

#include <cstdlib>
#include <cstring>

#include "faults/parse.h"

using namespace verbena::faults;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    std::vector<PlannedRule> rules, again;
    PlanError error;
    if (!parse_plan(text, rules, error)) {
        if (error.what.empty() || error.line == 0 || error.column > size + 1) std::abort();
        return 0;
    }
    for (const PlannedRule& each : rules) {
        if (!parse_plan(each.text, again, error) || again.size() != 1) std::abort();
        const Rule &one = each.rule, &other = again[0].rule;
        if (one.action != other.action || one.opcodes != other.opcodes || one.first != other.first ||
            one.last != other.last || one.time != other.time || one.code != other.code)
            std::abort();
    }
    return 0;
}
