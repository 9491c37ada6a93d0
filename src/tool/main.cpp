// The verbena command.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "tool/argument_checks.h"
#include "tool/capture.h"
#include "tool/doctor.h"
#include "tool/explain.h"
#include "tool/explore.h"
#include "tool/fault.h"
#include "tool/handshake.h"
#include "tool/inherited.h"
#include "tool/ps.h"
#include "tool/rdma_command.h"
#include "tool/report.h"
#include "tool/run.h"
#include "tool/stat.h"
#include "tool/status.h"
#include "tool/top.h"
#include "tool/trace.h"

using namespace verbena::tool;

namespace {

void add_run_options(CLI::App& command, RunOptions& options) {
    command
        .add_option("--fabric", options.fabric,
                    "A fabric of its own: only programs of the same fabric and network namespace meet")
        ->check(wrong_if_empty);
    command.add_option("--log", options.log, "level[,file=PATH]: none, error, warn, info, debug")
        ->check(wrong_if_empty);
    command.add_option("--capture", options.capture, "Write the program's packets to FILE.PID (pcapng)")
        ->check(wrong_if_empty);
    command.add_option("--fault", options.faults,
                       "Faults to happen to the program, or a file with such a plan (docs/faults.md)");
    command.add_flag("--sockets", options.sockets,
                     "The program's TCP connections go over RDMA (both ends need it)");
    command.add_option("--disable", options.disable, "Features not to use, separated by commas: gso,gro,...")
        ->check(wrong_if_empty);
}

// Options of those commands that take no value.
constexpr std::string_view kFlags[] = {"--sockets",  "--system", "--no-data", "--no-packets",
                                       "--perfetto", "--strict", "-j",        "--json"};

bool has_program(std::string_view command) {
    return command == "run" || command == "trace" || command == "record" || command == "explore";
}

// Where the program's own words begin behind `verbena run [OPTION VALUE | OPTION=VALUE]... [--]`; every
// option but those takes a value, so this needs no list of the others. The number of words if there is
// no program.
int program_begins(int argc, char** argv) {
    int at = 2;
    while (at < argc && argv[at][0] == '-') {
        std::string_view word = argv[at];
        if (word == "--") return at + 1;
        if (word == "-h" || word == "--help") return argc;
        const bool flag = std::find(std::begin(kFlags), std::end(kFlags), word) != std::end(kFlags);
        const bool attached = word.find('=') != std::string_view::npos || (word.size() > 2 && word[1] != '-');
        at += attached || flag ? 1 : 2;
    }
    return std::min(at, argc);
}

// One sentence about a command line that makes no sense; the exit status for it.
int complain(const CLI::App& app, std::string_view first, const char* what) {
    auto named = [&](const CLI::App* command) { return command->get_name() == first; };
    if (!first.empty() && first[0] != '-' && app.get_subcommands(named).empty())
        std::fprintf(stderr, "verbena: there is no command '%.*s' (verbena help lists them)\n",
                     static_cast<int>(first.size()), first.data());
    else
        std::fprintf(stderr, "verbena: %s (verbena --help tells more)\n", what);
    return 2;
}

int command_line(int argc, char** argv) {
    if (called_as_rdma(argc > 0 ? argv[0] : "")) return rdma_command(argc, argv);
    CLI::App app{"RDMA in user space: runs RDMA programs without an adapter, a kernel module or root",
                 "verbena"};
    app.set_version_flag("--version", VERBENA_VERSION);
    app.require_subcommand(1);

    RunOptions options;
    std::vector<std::string> command;
    auto* run_command =
        app.add_subcommand("run", "Run a program with Verbena's libraries: verbena run -- rping -s");
    add_run_options(*run_command, options);
    run_command->add_flag("--strict", options.strict,
                          "Tell mistakes that no library has to notice (docs/strict.md)");
    run_command->add_flag("--system", options.system,
                          "Over the libraries that the program has without Verbena");
    run_command->description(
        "Run a program with Verbena's libraries: verbena run [OPTIONS] [--] PROGRAM [ARGUMENT...]");

    TraceOptions tracing;
    auto add_watching = [&](const char* name, const char* description) {
        auto* added = app.add_subcommand(name, description);
        add_run_options(*added, tracing.run);
        added->add_flag("--system", tracing.run.system,
                        "Over the libraries that the program has without Verbena (no packets then)");
        added->add_flag("--no-data", tracing.no_data, "Neither posts and polls nor packets of data");
        added->add_flag("--no-packets", tracing.no_packets, "No packets");
        return added;
    };
    auto* trace_command = add_watching("trace",
                                       "Show a program's calls, completions and packets: verbena trace "
                                       "[OPTIONS] [--] PROGRAM [ARGUMENT...]");
    trace_command
        ->add_option("-o,--output", tracing.output,
                     "Write to this file instead of stderr; .json: for Perfetto")
        ->check(wrong_if_empty);
    trace_command->add_flag("--perfetto", tracing.perfetto,
                            "In the form that Perfetto reads (ui.perfetto.dev)");
    trace_command->add_option("-e,--calls", tracing.calls, "Calls to show: rdma_*,ibv_modify_qp")
        ->check(wrong_if_empty);
    auto* record_command = add_watching(
        "record",
        "Keep all of that in a file for verbena report: verbena record [OPTIONS] [--] PROGRAM [ARGUMENT...]");
    record_command->add_option("-o,--output", tracing.output, "The file; verbena.vrec if not given")
        ->check(wrong_if_empty);

    bool json = false;
    auto add_look = [&](const char* name, const char* description) {
        auto* added = app.add_subcommand(name, description);
        added->add_flag("-j,--json", json, "As JSON");
        return added;
    };
    ExploreOptions exploring;
    auto* explore_command =
        add_look("explore",
                 "Run a program once for each fault that could happen to it, and tell what it does not "
                 "survive: verbena explore [OPTIONS] [--] PROGRAM [ARGUMENT...]");
    explore_command->add_option("--only", exploring.only, "calls, messages or packets")
        ->delimiter(',')
        ->check(CLI::IsMember({"calls", "messages", "packets"}));
    explore_command->add_option("-t,--timeout", exploring.timeout, "Seconds after which a run hangs")
        ->check(between(0.1, 86400));
    explore_command->add_option("-n,--limit", exploring.limit, "Faults to try, at most");
    explore_command->add_option("--fabric", exploring.fabric, "The fabric; without, one of its own")
        ->check(wrong_if_empty);

    auto* env_command =
        app.add_subcommand("env", "Print the environment of run for a shell: eval \"$(verbena env)\"");
    add_run_options(*env_command, options);
    env_command->remove_option(env_command->get_option("--fault"));  // somebody has to wait for the end

    auto* status_command = add_look("status", "Show the daemon and the devices");
    auto* ps_command = add_look("ps", "Show the programs and what they have");

    TopOptions top;
    auto* top_command = add_look("top", "Show what the programs do, again and again (q ends it)");
    top_command->add_option("-d,--delay", top.delay, "Seconds between two looks (2)")
        ->check(between(0.01, 86400));
    top_command->add_option("-n,--count", top.count, "Looks; without, until q")->check(wrong_count);

    StatOptions stat;
    auto* stat_command = add_look("stat", "Show the counters of ports or queue pairs");
    stat_command->add_flag("-a,--all", stat.all, "Also those that are 0");
    stat_command->add_flag("-q,--qp", stat.queue_pairs, "Of each queue pair");
    stat_command->add_option("-p,--pid", stat.pid, "Of the queue pairs of this program")->check(wrong_count);

    auto* metrics_command =
        app.add_subcommand("metrics", "Print the ports' counters for Prometheus (OpenMetrics)");
    auto* doctor_command = add_look("doctor", "Check this host, and say what to do");
    app.add_subcommand("help", "Print this, or what a command can do: verbena help COMMAND");

    std::string capture_file;
    auto* capture_command = app.add_subcommand(
        "capture", "Write the packets of all programs of the user to a file (pcapng), until Ctrl-C");
    capture_command->add_option("-w,--write", capture_file, "The file; - is stdout")
        ->check(wrong_if_empty)
        ->required();

    FaultOptions faults;
    auto* fault_command = add_look(
        "fault", "Let something go wrong in running programs: verbena fault PID 'drop opcode=send nth=3'");
    fault_command->add_option("PID", faults.program, "The program, or all");
    fault_command->add_option("PLAN", faults.plan, "Faults, or a file with some (docs/faults.md)");
    fault_command->add_flag("-l,--list", faults.list, "Show the plans, and how often each fault fired");
    fault_command->add_flag("-c,--clear", faults.clear, "No fault happens any more");
    fault_command->add_flag("--calls", faults.calls, "List the calls that can be made to fail");

    std::vector<std::string> files;
    auto* handshake_command = app.add_subcommand("handshake", "Draw the CM messages of captures");
    handshake_command->add_option("FILE", files, "pcapng files or recordings; packets are merged by time")
        ->required();

    ReportOptions report_options;
    auto* report_command = app.add_subcommand(
        "report", "Make an HTML page of recordings or captures: verbena report a.vrec b.vrec -o report.html");
    report_command->add_option("FILE", report_options.files, ".vrec or pcapng files, merged by time")
        ->required();
    report_command->add_option("-o", report_options.output, "Where to write it (report.html); - for stdout")
        ->check(wrong_if_empty);
    report_command->add_option("--lang", report_options.language, "en or zh; the default is that of LANG")
        ->check(wrong_language);
    report_command->add_flag("--svg", report_options.picture,
                             "Only the picture of a conversation, to stdout");
    report_command->add_option("-n", report_options.number, "Which conversation, from 1 (1)")
        ->check(CLI::Range(1, 1000000));

    ExplainOptions asked;
    auto* explain_command = app.add_subcommand(
        "explain", "Say what a number or name means: verbena explain wc 12, ibv_modify_qp EINVAL, ...");
    explain_command->add_option("--lang", asked.language, "en or zh; the default is that of LANG")
        ->check(wrong_language);
    explain_command->add_flag("--markdown", asked.markdown, "Everything, as tables");
    explain_command->add_option("CODE", asked.code,
                                "A name (IBV_WC_..., IBV_EVENT_..., RDMA_CM_EVENT_..., EINVAL), a number, "
                                "KIND NUMBER with KIND one of wc, "
                                "vendor_err, async, event, reject, sidr, nak, syndrome, errno; EVENT STATUS; "
                                "CALL ERRNO; or words to search");

    if (argc > 1 && has_program(argv[1])) {
        int begin = program_begins(argc, argv);
        command.assign(argv + begin, argv + argc);
        argc = begin > 2 && std::string_view(argv[begin - 1]) == "--" ? begin - 1 : begin;
    }
    std::vector<char*> words(argv, argv + argc);
    if (argc > 1 && std::string_view(argv[1]) == "help") {  // [help, COMMAND] is [COMMAND, --help]
        const auto is_asked = [&](const CLI::App* each) { return each->get_name() == argv[2]; };
        const bool of_one = argc > 2 && argv[2][0] != '-';
        if (of_one && app.get_subcommands(is_asked).empty()) return complain(app, argv[2], "");
        static char help[] = "--help";
        words = {argv[0], of_one ? argv[2] : help, help};
        words.resize(of_one ? 3 : 2);
    }
    const auto is_first = [&](const CLI::App* each) { return each->get_name() == argv[1]; };
    try {
        app.parse(static_cast<int>(words.size()), words.data());
    } catch (const CLI::ParseError& error) {
        const bool known = argc < 2 || words[1][0] == '-' || std::string_view(argv[1]) == "help" ||
                           !app.get_subcommands(is_first).empty();
        if (error.get_exit_code() == 0 && known) return app.exit(error);  // --help, --version
        return complain(app, argc > 1 ? argv[1] : "", error.what());
    }

    if (has_program(argv[1]) && command.empty()) {
        std::fprintf(stderr, "verbena: %s needs a program: verbena %s -- rping -s\n", argv[1], argv[1]);
        return 2;
    }
    if (*run_command) return run(options, command);
    if (*trace_command) return trace(tracing, command);
    if (*record_command) return record(tracing, command);
    if (*explore_command) {
        exploring.json = json;
        return explore(exploring, command);
    }
    if (*env_command) return print_environment(options);
    if (*status_command) return show_status(json);
    if (*ps_command) return show_programs(json);
    if (*top_command) {
        top.json = json;
        return show_top(top);
    }
    if (*stat_command) {
        stat.json = json;
        return show_counters(stat);
    }
    if (*metrics_command) return show_metrics();
    if (*doctor_command) return examine(json);
    if (*capture_command) return capture(capture_file);
    if (*fault_command) {
        faults.json = json;
        return fault(faults);
    }
    if (*explain_command) return explain(asked);
    if (*report_command) return report(report_options);
    return draw_handshake(files);
}

}  // namespace

int main(int argc, char** argv) {
    set_right_what_is_inherited();
    int status = 1;
    try {
        status = command_line(argc, argv);
    } catch (const std::bad_alloc&) {
        std::fprintf(stderr, "verbena: no memory\n");
    }
    if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return status;
    std::fprintf(stderr, "verbena: not everything could be written to stdout\n");
    return status != 0 ? status : 1;
}
