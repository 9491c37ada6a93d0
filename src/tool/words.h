// A command as its words: to become it, and to write it for a shell.
#pragma once

#include <string>
#include <vector>

namespace verbena::tool {

// Replaces this process by the program. Returns only if that fails: the exit status that a shell would have
// (127: not found, 126: not executable), the reason told.
int become(const std::vector<std::string>& command);

// A word as a shell reads it back; quoted only if it has to be.
std::string shell_word(const std::string& word);

}  // namespace verbena::tool
