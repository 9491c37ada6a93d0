// verbenad's entry: options, what it inherits, and the word to whoever started it.
//
// The libraries start it when the first program needs it (host/launch.h), with descriptor --ready-fd; it
// answers "ok" there once it serves, or why it cannot. `verbenad --service`, run by root, serves all users in
// the foreground.

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "adapter/capture.h"
#include "base/reason.h"
#include "daemon/daemon.h"
#include "daemon/settle.h"
#include "host/address_name.h"

namespace {

using verbena::kMillisecond;

// More than host/launch.cpp's patience, without the one with whoever holds the port.
constexpr unsigned kStartSeconds = 10;

constexpr const char* kUsage =
    "usage: verbenad [--fabric NAME] [--service] [--idle-ms N] [--version]\n"
    "\n"
    "The daemon of Verbena's libraries: connection manager, addresses, receive queues. The libraries start "
    "it\n"
    "themselves; it leaves some seconds after the last program (VERBENA_IDLE_MS or --idle-ms).\n"
    "  --service  serve all users of this machine, in the foreground, until stopped; root only. They have "
    "no\n"
    "             isolation from each other then.\n";

struct Arguments {
    verbena::daemon::Options options;
    int ready_fd = -1;
    bool only_answer = false;
};

// Says it to whoever waits for us: the starting program, or the terminal.
void report(int ready_fd, const char* text) {
    const int fd = ready_fd >= 0 ? ready_fd : STDERR_FILENO;
    std::string line = text;
    if (ready_fd < 0) line = "verbenad: " + line + "\n";
    if (write(fd, line.data(), line.size()) < 0) return;
}

bool parse(int argc, char** argv, Arguments& out) {
    if (const char* idle = std::getenv("VERBENA_IDLE_MS")) out.options.idle = std::atoll(idle) * kMillisecond;
    if (const char* patience = std::getenv("VERBENA_PORT_PATIENCE_MS"))
        out.options.port_patience = std::atoll(patience) * kMillisecond;
    for (int i = 1; i < argc; i++) {
        const std::string name = argv[i];
        const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
        if (name == "--service") {
            out.options.service = true;
        } else if (name == "--version") {
            std::fprintf(stderr, "verbenad %s (protocol %u)\n", VERBENA_VERSION,
                         verbena::host::kProtocolVersion);
            out.only_answer = true;
        } else if (name == "--fabric" && value && verbena::host::is_fabric_name(value)) {
            out.options.fabric = argv[++i];
        } else if (name == "--idle-ms" && value) {
            out.options.idle = std::atoll(argv[++i]) * kMillisecond;
        } else if (name == "--ready-fd" && value) {
            out.ready_fd = std::atoi(argv[++i]);
        } else {
            std::fputs(kUsage, stderr);
            return false;
        }
    }
    if (out.options.idle < 0) out.options.idle = 0;
    if (out.options.port_patience < 0) out.options.port_patience = 0;
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    Arguments arguments;
    if (!parse(argc, argv, arguments)) return 2;
    if (arguments.only_answer) return 0;
    verbena::daemon::settle(arguments.ready_fd >= 0);
    // Whoever started us waits no longer, whatever keeps us.
    if (arguments.ready_fd >= 0)
        alarm(kStartSeconds + static_cast<unsigned>(arguments.options.port_patience / verbena::kSecond));
    if (arguments.options.service && geteuid() != 0) {
        report(arguments.ready_fd, "--service is for root");
        return 1;
    }
    // Whoever started us has it in its own environment, and names the file while it is connected
    // (host::HelloRequest::capture).
    if (arguments.ready_fd < 0) verbena::adapter::start_capture_if_asked("verbenad");
    if (verbena::daemon::open_random() != 0) {
        report(arguments.ready_fd, verbena::last_reason());
        return 1;
    }
    verbena::daemon::Daemon daemon(arguments.options);
    if (int error = daemon.start()) {
        // Somebody was faster; whoever started us finds that daemon.
        const bool other = error == EADDRINUSE && arguments.ready_fd >= 0;
        report(arguments.ready_fd, other ? "ok" : verbena::last_reason());
        return other ? 0 : 1;
    }
    if (arguments.ready_fd >= 0) {
        alarm(0);
        report(arguments.ready_fd, "ok");
        close(arguments.ready_fd);
    }
    daemon.run();
    return 0;
}
