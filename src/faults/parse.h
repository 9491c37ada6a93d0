// The language of plans: text to rules (docs/faults.md).
//
//     drop opcode=RC_SEND_ONLY nth=3; delay=20ms cm=RTU; fail call=ibv_reg_mr nth=2 errno=ENOMEM
//
// Thread safety: no state.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "faults/rule.h"

namespace verbena::faults {

struct PlannedRule {
    Rule rule;
    std::string text;  // as written, without comment and surrounding spaces
};

struct PlanError {
    unsigned line = 0, column = 0;  // from 1
    std::string what;
    std::string to_string() const;
};

// False with `error` for the first thing that makes no sense; a plan without any rule is none.
bool parse_plan(std::string_view text, std::vector<PlannedRule>& rules, PlanError& error);

}  // namespace verbena::faults
