// verbena-sim: runs seeds of the simulation, or one, or shows that deliberate bugs are found.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include "sim/cm_exhaustive.h"
#include "sim/mutations.h"
#include "sim/run_seed.h"
#include "sim/wire_watch.h"

namespace {

using namespace verbena;
using namespace verbena::sim;

constexpr std::uint64_t kSeedsForMutation = 10'000;
constexpr std::uint64_t kSeedsForCoverage = 2000;

struct Options {
    Batch batch;
    bool one_seed = false;
    std::string mutate;
    bool verbose = false;
    bool bad = false;
};

bool parse_number(const char* text, std::uint64_t& number) {
    const char* end = text + std::strlen(text);
    return std::from_chars(text, end, number).ptr == end && end != text;
}

Options parse(int argc, char** argv) {
    Options o;
    o.batch.jobs = std::max(std::thread::hardware_concurrency(), 1u);
    for (int i = 1; i < argc; i++) {
        const std::string name = argv[i];
        if (name == "--verbose") {
            o.verbose = true;
            continue;
        }
        const char* value = i + 1 < argc ? argv[++i] : "";
        std::uint64_t number = 0;
        if (name == "--mutate") {
            o.mutate = value;
        } else if (!parse_number(value, number)) {
            o.bad = true;
        } else if (name == "--seeds") {
            o.batch.count = number;
        } else if (name == "--first") {
            o.batch.first = number;
        } else if (name == "--failures") {
            o.batch.most_failures = static_cast<unsigned>(number);
        } else if (name == "--jobs") {
            o.batch.jobs = static_cast<unsigned>(std::max<std::uint64_t>(number, 1));
        } else if (name == "--seed") {
            o.one_seed = true;
            o.batch.first = number;
        } else {
            o.bad = true;
        }
    }
    if (o.one_seed) o.batch.count = o.batch.jobs = 1;
    return o;
}

void report(const Failure& failure, const std::string& mutation) {
    std::printf("seed %llu: %s\n%s  reproduce: make sim SEED=%llu%s%s\n",
                static_cast<unsigned long long>(failure.seed), failure.outcome.violation.c_str(),
                failure.outcome.details.c_str(), static_cast<unsigned long long>(failure.seed),
                mutation.empty() ? "" : " MUTATE=", mutation.c_str());
}

// Each deliberate bug must be found.
int run_all_mutations(Batch batch) {
    if (const std::string violation = run_all_conversations().violation; !violation.empty()) {
        std::printf("%s\n", violation.c_str());
        return 1;
    }
    int missed = 0;
    batch.count = kSeedsForMutation;
    batch.most_failures = 1;
    std::printf("%-4s %-32s %s\n", "", "mutation", "found");
    int number = 0;
    for (Mutation mutation : all_mutations()) {
        set_mutation(mutation);
        BatchResult result;
        const std::string conversation = run_all_conversations().violation;
        if (conversation.empty()) run_batch(batch, result);
        set_mutation(Mutation::none);
        // It is the bug that was found, if the same run is clean without it.
        for (const Failure& failure : result.failures)
            if (!run_seed(failure.seed).violation.empty()) {
                std::printf("seed %llu fails without any mutation\n",
                            static_cast<unsigned long long>(failure.seed));
                return 1;
            }
        std::printf("%-4d %-32s ", ++number, to_string(mutation));
        if (!conversation.empty()) {
            std::printf("by %s\n", conversation.c_str());
        } else if (result.failures.empty()) {
            std::printf("NOT within %llu seeds\n", static_cast<unsigned long long>(result.runs));
            missed++;
        } else {
            std::printf("by seed %llu: %s\n", static_cast<unsigned long long>(result.failures[0].seed),
                        result.failures[0].outcome.violation.c_str());
        }
        std::fflush(stdout);
    }
    return missed == 0 ? 0 : 1;
}

int run(const Options& options) {
    if (options.mutate == "all") return run_all_mutations(options.batch);
    if (!options.mutate.empty()) {
        const Mutation mutation = find_mutation(options.mutate);
        if (mutation == Mutation::none) {
            std::fprintf(stderr, "no mutation is called %s; they are:\n", options.mutate.c_str());
            int number = 0;
            for (Mutation known : all_mutations())
                std::fprintf(stderr, "  %d %s\n", ++number, to_string(known));
            return 2;
        }
        set_mutation(mutation);
    }
    WireWatch::trace = options.one_seed && options.verbose;
    const auto start = std::chrono::steady_clock::now();
    BatchResult result;
    std::uint64_t conversations = 0;
    if (!options.one_seed) {
        const ExhaustiveResult exhaustive = run_all_conversations();
        conversations = exhaustive.runs;
        result.coverage = exhaustive.coverage;
        if (!exhaustive.violation.empty()) {
            std::printf("%s\n  reproduce: make sim SEEDS=0%s%s\n", exhaustive.violation.c_str(),
                        options.mutate.empty() ? "" : " MUTATE=", options.mutate.c_str());
            return 1;
        }
    }
    run_batch(options.batch, result);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    for (const Failure& failure : result.failures) report(failure, options.mutate);

    std::vector<std::string> zero;
    const std::string table = result.coverage.table(zero);
    if (options.verbose || result.runs >= kSeedsForCoverage) std::printf("%s\n", table.c_str());
    if (conversations)
        std::printf("%llu CM conversations with any two messages lost or doubled\n",
                    static_cast<unsigned long long>(conversations));
    std::printf("%llu seeds, %llu packets, %llu events in %.1f s: %zu failed\n",
                static_cast<unsigned long long>(result.runs),
                static_cast<unsigned long long>(result.coverage.packets),
                static_cast<unsigned long long>(result.coverage.events), seconds, result.failures.size());
    if (!result.failures.empty()) return 1;
    if (result.runs < kSeedsForCoverage) return 0;
    for (const std::string& line : zero) std::printf("never happened: %s\n", line.c_str());
    return zero.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    const Options options = parse(argc, argv);
    if (options.bad) {
        std::fprintf(
            stderr,
            "usage: verbena-sim [--seeds N] [--first K] [--seed S] [--mutate NAME|NUMBER|all] [--jobs N]\n"
            "                   [--failures N] [--verbose]\n");
        return 2;
    }
    return run(options);
}
