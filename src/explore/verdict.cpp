#include "explore/verdict.h"

#include <csignal>
#include <cstring>

namespace verbena::explore {
namespace {

constexpr int kSignals = 128;  // a shell's exit status of a program that a signal ended

bool is_crash(int signal) {
    return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL || signal == SIGABRT;
}

std::string what_is_left(const Recorded& run, const Recorded& without) {
    std::string text;
    for (const auto& [whose, count] : run.left) {
        const auto before = without.left.find(whose);
        const unsigned usual = before == without.left.end() ? 0 : before->second;
        if (count <= usual) continue;
        const auto& [program, kind] = whose;
        text.append(text.empty() ? "" : ", ").append(program).append(" leaves ");
        text.append(std::to_string(count - usual)).append(" more ").append(kind);
    }
    return text;
}

std::string joined(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += (text.empty() ? "" : "; ") + line;
    return text;
}

}  // namespace

const char* to_string(Finding finding) {
    switch (finding) {
        case Finding::none:
            return "ok";
        case Finding::hang:
            return "hang";
        case Finding::crash:
            return "crash";
        case Finding::leak:
            return "leak";
        case Finding::gave_up:
            return "gave up";
        case Finding::never_fired:
            return "never fired";
    }
    return "?";
}

Verdict judge(const Trial& trial, const Ending& ending, const Recorded& run, const Recorded& without) {
    if (ending.timed_out) return {Finding::hang, joined(run.unfinished)};
    if (ending.exit_status > kSignals && is_crash(ending.exit_status - kSignals))
        return {Finding::crash, strsignal(ending.exit_status - kSignals)};
    if (ending.never_fired) return {Finding::never_fired, {}};
    if (ending.exit_status != 0) {
        const std::string status = "exit status " + std::to_string(ending.exit_status);
        return {trial.made_good ? Finding::gave_up : Finding::none, status};
    }
    if (const std::string left = what_is_left(run, without); !left.empty()) return {Finding::leak, left};
    return {};
}

}  // namespace verbena::explore
