#include "tool/words.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tool/inherited.h"

namespace verbena::tool {

int become(const std::vector<std::string>& command) {
    std::vector<char*> words;
    words.reserve(command.size() + 1);
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    put_back_what_was_inherited();
    execvp(words[0], words.data());
    const int error = errno;
    std::fprintf(stderr, "verbena: %s: %s\n", words[0], std::strerror(error));
    return error == ENOENT ? 127 : 126;
}

std::string shell_word(const std::string& word) {
    constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,+-";
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
    std::string quoted = "'";
    for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return quoted + "'";
}

}  // namespace verbena::tool
