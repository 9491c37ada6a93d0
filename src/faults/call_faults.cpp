#include "faults/call_faults.h"

#include <string_view>

#include "base/reason.h"

namespace verbena::faults {
namespace {

// The headers turn ibv_reg_mr into whichever of three fits its arguments.
bool is_meant(const Rule& rule, std::string_view name) {
    const std::string_view wanted = rule.call_name();
    return wanted == name || (wanted == "ibv_reg_mr" && name.substr(0, 15) == "ibv_reg_mr_iova");
}

}  // namespace

int PlannedCalls::error_of(const char* name) {
    const unsigned count = board_.count();
    for (unsigned index = 0; index < count; index++) {
        const Rule& rule = board_.rule(index);
        if (!board_.active(index) || rule.subject != Subject::call || !is_meant(rule, name) ||
            !rule.is_of_program(program_))
            continue;
        if (!board_.meets(index)) continue;
        Call call(name);
        return fail(rule.code, "the plan of faults wants it to fail: %s", board_.text(index));
    }
    return 0;
}

}  // namespace verbena::faults
