#include "tool/doctor.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "base/reason.h"
#include "tool/installation.h"
#include "tool/json_text.h"
#include "tool/look.h"

namespace verbena::tool {
namespace {

using Result = Finding::Result;

const char* to_string(Result result) {
    return result == Result::ok ? "ok" : result == Result::warn ? "warn" : "fail";
}

void check_installation(std::vector<Finding>& out) {
    const Installation found = find_installation();
    const bool whole = !found.libraries.empty() && !found.daemon.empty();
    if (!found.obstacle.empty()) {
        out.push_back({"installation", Result::fail, found.obstacle, "Verbena and the programs need /proc"});
        return;
    }
    out.push_back({"installation", whole ? Result::ok : Result::fail,
                   whole ? "libraries in " + found.libraries : "the libraries or verbenad are missing",
                   whole ? std::string() : "build the project or install it again"});
    if (whole &&
        (found.view.empty() || found.interposer.empty() || found.sockets.empty() || found.commands.empty()))
        out.push_back({"installation-parts", Result::warn,
                       std::string("missing:") + (found.view.empty() ? " libverbena-view.so" : "") +
                           (found.interposer.empty() ? " libverbena-interpose.so" : "") +
                           (found.sockets.empty() ? " librspreload.so" : "") +
                           (found.commands.empty() ? " rdma" : ""),
                       "install the project again"});
}

// The libibverbs that a program gets that is started from here without `verbena run`.
void check_library_path(std::vector<Finding>& out) {
    namespace fs = std::filesystem;
    const std::string ours = find_installation().libraries;
    std::error_code error;
    std::string_view rest = std::getenv("LD_LIBRARY_PATH") ? std::getenv("LD_LIBRARY_PATH") : "";
    while (!rest.empty()) {
        const std::size_t colon = rest.find(':');
        const fs::path folder(rest.substr(0, colon));
        rest = colon == std::string_view::npos ? std::string_view{} : rest.substr(colon + 1);
        if (!fs::exists(folder / "libibverbs.so.1", error)) continue;
        if (fs::equivalent(folder, ours, error))
            out.push_back(
                {"library-path", Result::ok, "LD_LIBRARY_PATH finds Verbena's libibverbs first", {}});
        else
            out.push_back({"library-path", Result::warn,
                           "LD_LIBRARY_PATH finds another libibverbs first: " + folder.string(),
                           "verbena run puts its own in front; a program that sets the variable itself "
                           "does not get it"});
        return;
    }
    for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
                               "/usr/lib", "/usr/local/lib"})
        if (fs::exists(fs::path(folder) / "libibverbs.so.1", error)) {
            out.push_back({"other-libraries",
                           Result::ok,
                           std::string("the system's libibverbs is in ") + folder +
                               "; programs use it unless verbena run starts them",
                           {}});
            return;
        }
    out.push_back({"other-libraries", Result::ok, "the system has no libibverbs of its own", {}});
}

// Adapters of the kernel's, soft-RoCE among them, which has UDP port 4791 for itself.
void check_kernel_devices(std::vector<Finding>& out) {
    std::string names;
    bool rxe = false;
    if (DIR* folder = opendir("/sys/class/infiniband")) {
        while (const dirent* entry = readdir(folder)) {
            if (entry->d_name[0] == '.') continue;
            names += std::string(names.empty() ? "" : ", ") + entry->d_name;
            rxe = rxe || std::string_view(entry->d_name).starts_with("rxe");
        }
        closedir(folder);
    }
    if (!names.empty() && !std::getenv("VERBENA_DAEMON"))
        out.push_back(
            {"kernel-devices", rxe ? Result::warn : Result::ok,
             "the kernel has RDMA devices: " + names + "; under verbena run programs do not see them",
             rxe ? "soft-RoCE and Verbena cannot both have UDP port 4791 of a network namespace"
                 : std::string()});
}

void check_daemon(Look& look, std::vector<Finding>& out, observe::Snapshot& snapshot, bool& answered) {
    answered = look.take(observe::Depth::everything, snapshot) == 0;
    if (!answered) {
        out.push_back({"daemon", Result::fail, last_reason(), "VERBENA_LOG=info says more"});
        return;
    }
    const host::FabricInfo& fabric = look.fabric();
    out.push_back({"daemon", Result::ok, "verbenad answers", {}});
    if (fabric.wire_available)
        out.push_back(
            {"port-4791", Result::ok, "UDP port 4791 is Verbena's: other hosts can be reached", {}});
    else
        out.push_back({"port-4791", fabric.chosen ? Result::ok : Result::warn, fabric.note.data(),
                       fabric.chosen ? "without VERBENA_FABRIC: other hosts and network namespaces, too"
                                     : "end what has the port (ss -ulpn 'sport = 4791'), or leave it: "
                                       "programs of this host reach each other"});
}

// What the daemon, which serves all, could not shake off of the program that started it. Another user's does
// not tell.
void check_daemon_limits(pid_t daemon, std::vector<Finding>& out) {
    rlimit files{}, processor{};
    if (daemon <= 0 || prlimit(daemon, RLIMIT_NOFILE, nullptr, &files) != 0 ||
        prlimit(daemon, RLIMIT_CPU, nullptr, &processor) != 0)
        return;
    const char* advice =
        "end its programs, and start the next one where \"ulimit -H\" allows more, or verbenad itself";
    const bool few = files.rlim_cur < kFewFiles;
    out.push_back({"daemon-files", few ? Result::warn : Result::ok,
                   "verbenad may open " + limit_text(files.rlim_cur) +
                       " files, five for each program and one for each event channel",
                   few ? advice : std::string()});
    if (processor.rlim_cur != RLIM_INFINITY)
        out.push_back({"daemon-processor-time", Result::warn,
                       "verbenad, and with it every program's connections, ends after " +
                           limit_text(processor.rlim_cur) + " s of processor time",
                       advice});
}

void check_devices(const observe::Snapshot& snapshot, bool wire, std::vector<Finding>& out) {
    std::size_t others = 0;
    for (const host::Device& device : snapshot.devices) {
        const std::string name = device.name.data();
        const auto gids = std::count(device.gid_valid.begin(), device.gid_valid.end(), 1);
        if (!device.active)
            out.push_back({"device", Result::warn, name + " is down",
                           std::string("ip link set ") + device.netdev.data() + " up"});
        else if (gids == 0)
            out.push_back({"device", Result::warn, name + " has no address, so no GID",
                           std::string("ip address add ADDRESS dev ") + device.netdev.data()});
        if (device.active && gids > 0 && !device.loopback) others++;
    }
    if (snapshot.devices.empty())
        out.push_back(
            {"devices", Result::fail, "no network interface is up and has an address", "ip link set lo up"});
    else
        out.push_back({"devices",
                       Result::ok,
                       std::to_string(snapshot.devices.size()) + " devices, " +
                           std::to_string(wire ? others : 0) + " of them with a way to other hosts",
                       {}});
}

void check_leftovers(const observe::Snapshot& snapshot, std::vector<Finding>& out) {
    std::string dead;
    for (const observe::Program& program : snapshot.programs)
        if (kill(static_cast<pid_t>(program.pid), 0) != 0 && errno == ESRCH)
            dead += " " + std::to_string(program.pid);
    if (dead.empty())
        out.push_back({"leftovers", Result::ok, "no tables of programs that are dead", {}});
    else
        out.push_back({"leftovers", Result::warn,
                       "the daemon keeps the tables of programs that cannot be seen:" + dead,
                       "programs in other process namespaces look so; otherwise end verbenad"});
}

}  // namespace

int examine(bool json) {
    std::vector<Finding> found;
    check_installation(found);
    check_library_path(found);
    check_kernel_devices(found);
    check_memory_exchange(found);
    check_sockets(found);
    check_limits(found);
    Look look;
    observe::Snapshot snapshot;
    bool answered = false;
    check_daemon(look, found, snapshot, answered);
    if (answered) {
        check_daemon_limits(look.daemon(), found);
        check_devices(snapshot, look.fabric().wire_available != 0, found);
        check_leftovers(snapshot, found);
    }

    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    bool failed = false;
    for (const Finding& each : found) {
        failed = failed || each.result == Result::fail;
        if (json) {
            all.push_back({{"check", each.check}, {"result", to_string(each.result)}, {"text", each.text}});
            if (!each.advice.empty()) all.back()["advice"] = each.advice;
            continue;
        }
        std::printf("%-4s  %s\n", to_string(each.result), each.text.c_str());
        if (!each.advice.empty()) std::printf("      -> %s\n", each.advice.c_str());
    }
    if (json) std::printf("%s\n", json_text(all, 2).c_str());
    return failed ? 1 : 0;
}

}  // namespace verbena::tool
