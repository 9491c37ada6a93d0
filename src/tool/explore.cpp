#include "tool/explore.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "explore/recorded.h"
#include "explore/trials.h"
#include "explore/verdict.h"
#include "tool/contained.h"
#include "tool/json_text.h"
#include "tool/scratch_file.h"
#include "tool/supervise.h"
#include "tool/words.h"

namespace verbena::tool {
namespace {

using explore::Trial;
using Json = nlohmann::ordered_json;

// A queue pair with rdma_cm's usual timeout gives up after 8 times 2.1 s; and a slow program's own time.
constexpr double kPatience = 25, kSlower = 5;  // seconds; times the first run

std::string replay(const Trial& trial, const std::vector<std::string>& command) {
    std::string line = "verbena run --fault " + shell_word(trial.plan) + " --";
    for (const std::string& word : command) line += " " + shell_word(word);
    return line;
}

struct Run {
    Contained outcome;
    explore::Recorded recorded;
};

Run run_once(const std::vector<std::string>& command, const std::string& plan, double timeout) {
    Run run;
    ScratchFile file;
    if (!file.open("explore")) {
        run.outcome.exit_status = 1;
        return run;
    }
    std::vector<std::string> words{"/proc/self/exe", "record", "-o", file.path()};
    if (!plan.empty()) words.insert(words.end(), {"--fault", plan});
    words.emplace_back("--");
    words.insert(words.end(), command.begin(), command.end());
    run.outcome = run_contained(words, timeout);
    trace::EventTail tail(file.fd());
    run.recorded = explore::read_run(tail.read());
    return run;
}

const char* word_for(explore::Subject subject) {
    switch (subject) {
        case explore::Subject::calls:
            return "calls";
        case explore::Subject::messages:
            return "messages";
        case explore::Subject::packets:
            return "packets";
    }
    return "";
}

std::vector<Trial> chosen(const ExploreOptions& options, const explore::Recorded& without) {
    std::vector<Trial> trials = explore::trials_for(without);
    std::erase_if(trials, [&](const Trial& trial) {
        return !options.only.empty() && std::find(options.only.begin(), options.only.end(),
                                                  word_for(trial.subject)) == options.only.end();
    });
    if (options.limit != 0 && trials.size() > options.limit) trials.resize(options.limit);
    return trials;
}

// "3 none, 2 hang": each finding that there was, in the order of their values.
std::string summary(const std::vector<unsigned>& counts) {
    std::string text;
    for (unsigned i = 0; i < counts.size(); i++)
        if (counts[i] != 0)
            text += (text.empty() ? "" : ", ") + std::to_string(counts[i]) + " " +
                    to_string(static_cast<explore::Finding>(i));
    return text;
}

}  // namespace

int explore(const ExploreOptions& options, const std::vector<std::string>& command) {
    const std::string fabric =
        options.fabric.empty() ? "explore-" + std::to_string(getpid()) : options.fabric;
    setenv("VERBENA_FABRIC", fabric.c_str(), 1);
    const Run without = run_once(command, "", options.timeout != 0 ? options.timeout : 600);
    if (const int signal = without.outcome.interrupted_by) die_of(signal);
    if (without.outcome.timed_out || without.outcome.exit_status != 0) {
        std::fprintf(
            stderr, "verbena: without any fault the program %s; explore begins from a run that succeeds\n",
            without.outcome.timed_out ? "does not end"
                                      : ("ends with " + std::to_string(without.outcome.exit_status)).c_str());
        if (!without.outcome.last_words.empty())
            std::fprintf(stderr, "verbena: its last words: %s\n", without.outcome.last_words.c_str());
        return 2;
    }
    const std::vector<Trial> trials = chosen(options, without.recorded);
    if (trials.empty()) {
        std::fprintf(stderr, "verbena: the program made no RDMA call and sent no packet\n");
        return 2;
    }
    const double timeout =
        options.timeout != 0 ? options.timeout : kPatience + kSlower * without.outcome.seconds;
    if (!options.json)
        std::fprintf(stderr, "verbena: %zu faults to try, a run takes %.1f s, one that takes %.0f s hangs\n",
                     trials.size(), without.outcome.seconds, timeout);
    std::vector<unsigned> counts(static_cast<std::size_t>(explore::Finding::never_fired) + 1);
    Json list = Json::array();
    for (const Trial& trial : trials) {
        const Run run = run_once(command, trial.plan, timeout);
        if (const int signal = run.outcome.interrupted_by) die_of(signal);
        const explore::Verdict verdict =
            judge(trial,
                  {run.outcome.timed_out, run.outcome.exit_status,
                   run.outcome.exit_status == kNeverFired && run.recorded.faults_fired == 0},
                  run.recorded, without.recorded);
        counts[static_cast<std::size_t>(verdict.finding)]++;
        if (options.json)
            list.push_back({{"finding", to_string(verdict.finding)},
                            {"fault", trial.plan},
                            {"seconds", run.outcome.seconds},
                            {"exit_status", run.outcome.exit_status},
                            {"what", verdict.what},
                            {"last_words", run.outcome.last_words},
                            {"replay", replay(trial, command)}});
        if (options.json || verdict.finding == explore::Finding::none) continue;
        std::printf("%-12s%s\n", to_string(verdict.finding), replay(trial, command).c_str());
        for (const std::string& more : {verdict.what, run.outcome.last_words})
            if (!more.empty()) std::printf("            %s\n", more.c_str());
        std::fflush(stdout);
    }
    if (options.json)
        std::printf("%s\n", json_text(list, 2).c_str());
    else
        std::printf("%zu faults: %s\n", trials.size(), summary(counts).c_str());
    const unsigned harmless = counts[static_cast<std::size_t>(explore::Finding::none)] +
                              counts[static_cast<std::size_t>(explore::Finding::never_fired)];
    return harmless == trials.size() ? 0 : 1;
}

}  // namespace verbena::tool
