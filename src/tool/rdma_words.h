// The objects of the `rdma` command and the words behind them.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "observe/snapshot.h"
#include "tool/rdma_output.h"

namespace verbena::tool {

inline constexpr int kNotOurs = -1;  // instead of an exit status: the system's command may know

// iproute2 takes abbreviations.
inline bool means(const char* word, const char* full) {
    return std::strncmp(word, full, std::strlen(word)) == 0;
}
inline bool is_show(const char* word) { return means(word, "show") || means(word, "list"); }

// rdma resource [show [DEV]], rdma resource show {qp|cq|mr|pd|cm_id|ctx|srq} [{link|dev} DEV[/PORT]]
// [NAME VALUE]...
int show_resources(std::span<const char* const> words, const RdmaOptions& options);

// rdma statistic [qp] [show [link [DEV[/PORT]]]] [NAME VALUE]...
int show_statistics(std::span<const char* const> words, const RdmaOptions& options);

// The devices that `wanted` means: "" for all, NAME, NAME/1 or NAME/-. False, and told, if there is none.
bool choose_devices(const observe::Snapshot& snapshot, std::string wanted,
                    std::vector<const host::Device*>& out);

// A program's name and number, as the last fields of an object.
void add_program(Json& fields, const observe::Program& program);

}  // namespace verbena::tool
