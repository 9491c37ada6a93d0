// verbena doctor: whether this host lets Verbena work as it can, and what to do if it does not.
#pragma once

#include <sys/resource.h>

#include <string>
#include <vector>

namespace verbena::tool {

struct Finding {
    enum class Result { ok, warn, fail };
    std::string check;  // a word or two, for machines
    Result result = Result::ok;
    std::string text;    // what was found
    std::string advice;  // what to do; empty if nothing
};

// Returns the exit status: 1 if anything fails, 0 with warnings.
int examine(bool json);

inline constexpr rlim_t kFewFiles = 1024;
// Of getrlimit(2).
std::string limit_text(rlim_t limit);

// host_checks.cpp: of the kernel and this user's rights; nothing of the daemon.
void check_memory_exchange(std::vector<Finding>& out);
void check_sockets(std::vector<Finding>& out);
void check_limits(std::vector<Finding>& out);

}  // namespace verbena::tool
