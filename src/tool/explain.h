// verbena explain: what a number or name means that an RDMA program was given.
#pragma once

#include <string>
#include <vector>

namespace verbena::tool {

struct ExplainOptions {
    std::string language;           // en, zh; empty: as LC_ALL, LC_MESSAGES or LANG say
    bool markdown = false;          // the tables of docs/errors.md
    std::vector<std::string> code;  // the words: "wc 12", "RDMA_CM_EVENT_REJECTED 28", "ibv_modify_qp EINVAL"
};

// Prints to stdout; the exit status: 1 if nothing is known of a word.
int explain(const ExplainOptions& options);

}  // namespace verbena::tool
