#include "daemon/proc.h"

#include <dirent.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <string_view>

namespace verbena::daemon {
namespace {

constexpr unsigned kNetBindService = 10;  // of <linux/capability.h>

using Directory = std::unique_ptr<DIR, int (*)(DIR*)>;

Directory open_directory(const std::string& path) { return Directory(opendir(path.c_str()), closedir); }

// What is behind that word in a process's status; empty if it cannot be read.
std::string status_field(pid_t pid, std::string_view name) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/status");
    std::string line;
    while (std::getline(file, line))
        if (line.starts_with(name)) return line.substr(name.size());
    return {};
}

// Of sockets bound to `port`: inode -> user.
std::map<unsigned long, uid_t> udp_sockets(std::uint16_t port) {
    std::map<unsigned long, uid_t> found;
    for (const char* path : {"/proc/net/udp", "/proc/net/udp6"}) {
        std::ifstream file(path);
        std::string line;
        std::getline(file, line);  // headings
        while (std::getline(file, line)) {
            unsigned local_port = 0, user = 0;
            unsigned long inode = 0;
            if (std::sscanf(line.c_str(), " %*u: %*[0-9A-Fa-f]:%x %*s %*s %*s %*s %*s %u %*u %lu",
                            &local_port, &user, &inode) == 3 &&
                local_port == port)
                found.emplace(inode, user);
        }
    }
    return found;
}

}  // namespace

bool read_setting(const char* path, std::uint32_t& first, std::uint32_t* second) {
    std::ifstream file(path);
    return second ? static_cast<bool>(file >> first >> *second) : static_cast<bool>(file >> first);
}

bool may_bind_low_ports(pid_t pid) {
    return std::strtoull(status_field(pid, "CapEff:").c_str(), nullptr, 16) >> kNetBindService & 1;
}

mode_t umask_of(pid_t pid) {
    const std::string octal = status_field(pid, "Umask:");
    return octal.empty() ? 077 : static_cast<mode_t>(std::strtoul(octal.c_str(), nullptr, 8));
}

std::string process_name(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
    std::string name;
    if (!std::getline(file, name) || name.empty()) return "?";
    for (char& c : name)
        if (c < ' ' || c > '~') c = '?';
    return name;
}

std::vector<PortHolder> holders_of_udp_port(std::uint16_t port) {
    std::map<unsigned long, PortHolder> by_inode;
    std::vector<PortHolder> holders;
    for (const auto& [inode, user] : udp_sockets(port)) by_inode[inode] = {false, user, 0};
    if (by_inode.empty()) return holders;
    Directory processes = open_directory("/proc");
    while (dirent* process = processes ? readdir(processes.get()) : nullptr) {
        const pid_t pid = static_cast<pid_t>(std::atoi(process->d_name));
        if (pid <= 0) continue;
        const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
        Directory descriptors = open_directory(folder);
        while (dirent* entry = descriptors ? readdir(descriptors.get()) : nullptr) {
            char target[64] = {};
            unsigned long inode = 0;
            if (readlink((folder + "/" + entry->d_name).c_str(), target, sizeof target - 1) > 0 &&
                std::sscanf(target, "socket:[%lu]", &inode) == 1)
                if (auto found = by_inode.find(inode); found != by_inode.end() && !found->second.pid)
                    found->second.pid = pid;
        }
    }
    for (auto& [inode, holder] : by_inode) {
        // Root sees every process, so what no process has is the kernel's. Others can only guess.
        const bool hidden = holder.pid == 0 && holder.user == 0;
        holder.kernel = hidden && (geteuid() == 0 || access("/sys/module/rdma_rxe", F_OK) == 0);
        holders.push_back(holder);
    }
    return holders;
}

}  // namespace verbena::daemon
