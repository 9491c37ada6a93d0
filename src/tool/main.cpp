// The verbena command.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tool/handshake.h"
#include "tool/run.h"
#include "tool/status.h"

using namespace verbena::tool;

namespace {

void add_run_options(CLI::App& command, RunOptions& options) {
    command.add_option("--fabric", options.fabric,
                       "A fabric of its own: only programs of the same fabric meet");
    command.add_option("--log", options.log, "level[,file=PATH]: none, error, warn, info, debug");
    command.add_option("--capture", options.capture, "Write the program's packets to FILE.PID (pcapng)");
    command.add_option("--disable", options.disable, "Features not to use, separated by commas: gso,gro,...");
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app{"RDMA in user space: runs RDMA programs without an adapter, a kernel module or root",
                 "verbena"};
    app.set_version_flag("--version", VERBENA_VERSION);
    app.require_subcommand(1);

    RunOptions options;
    std::vector<std::string> command;
    auto* run_command =
        app.add_subcommand("run", "Run a program with Verbena's libraries: verbena run -- rping -s");
    add_run_options(*run_command, options);
    run_command->prefix_command();
    run_command->description("Run a program with Verbena's libraries: verbena run [OPTIONS] [--] PROGRAM [ARGUMENT...]");

    auto* env_command =
        app.add_subcommand("env", "Print the environment of run for a shell: eval $(verbena env)");
    add_run_options(*env_command, options);

    bool json = false;
    auto* status_command = app.add_subcommand("status", "Show the daemon and the devices");
    status_command->add_flag("-j,--json", json, "As JSON");

    std::vector<std::string> files;
    auto* handshake_command = app.add_subcommand("handshake", "Draw the CM messages of captures");
    handshake_command->add_option("FILE", files, "pcapng files; packets are merged by time")->required();

    CLI11_PARSE(app, argc, argv);

    if (*run_command) {
        command = run_command->remaining();
        if (!command.empty() && command.front() == "--") command.erase(command.begin());
        if (command.empty()) {
            std::fprintf(stderr, "verbena: run needs a program: verbena run -- rping -s\n");
            return 2;
        }
        return run(options, command);
    }
    if (*env_command) return print_environment(options);
    if (*status_command) return show_status(json);
    return draw_handshake(files);
}
