// The few things that only /proc tells.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace verbena::daemon {

// One or two numbers from a file of /proc/sys. False if it cannot be read.
bool read_setting(const char* path, std::uint32_t& first, std::uint32_t* second = nullptr);

// CAP_NET_BIND_SERVICE in a process's effective set.
bool may_bind_low_ports(pid_t pid);

// A process's umask; the strictest for one that cannot be looked at.
mode_t umask_of(pid_t pid);

// The name of a process ("comm"), made of printable characters; "?" if it cannot be read.
std::string process_name(pid_t pid);

// Who holds a UDP port, as far as this user may know.
struct PortHolder {
    bool kernel = false;  // no process has it: soft-RoCE, a tunnel
    uid_t user = 0;
    pid_t pid = 0;  // 0: a process of another user
};
std::vector<PortHolder> holders_of_udp_port(std::uint16_t port);

}  // namespace verbena::daemon
