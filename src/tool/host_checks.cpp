// What verbena doctor tries out on the kernel.
#include <netinet/in.h>
#include <netinet/udp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/sealed_file.h"
#include "link/socket_options.h"
#include "tool/doctor.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace verbena::tool {
namespace {

using Result = Finding::Result;

constexpr std::size_t kGoodReceiveBuffer = 128 * 10 * 1024;  // 128 packets of 4 KiB, with what they cost

// In a child: reads a word of `other`, whose memory is as ours was. The exit status is 0 or an errno.
[[noreturn]] void read_from(pid_t other) {
    static const long word = 42;
    long copy = 0;
    const iovec local{&copy, sizeof copy};
    const iovec remote{const_cast<long*>(&word), sizeof word};
    const bool read = process_vm_readv(other, &local, 1, &remote, 1, 0) == sizeof copy && copy == word;
    _exit(read ? 0 : errno);
}

int read_number(const char* path) {
    int value = -1;
    if (std::FILE* file = std::fopen(path, "re")) {
        if (std::fscanf(file, "%d", &value) != 1) value = -1;
        std::fclose(file);
    }
    return value;
}

std::string megabytes(std::size_t bytes) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f MB", static_cast<double>(bytes) / 1e6);
    return text;
}

void check_receive_buffer(int fd, std::vector<Finding>& out) {
    const std::size_t size = link::prepare_receive_socket(fd, false) == 0 ? link::receive_buffer(fd) : 0;
    if (size >= kGoodReceiveBuffer)
        out.push_back({"receive-buffer", Result::ok, "receive buffers of " + megabytes(size), {}});
    else
        out.push_back({"receive-buffer", Result::warn,
                       "receive buffers of " + megabytes(size) +
                           " only: a smaller path MTU and packets lost under load",
                       "sysctl -w net.core.rmem_max=4194304"});
}

void check_offloads(int fd, std::vector<Finding>& out) {
    const int on = 1;
    const bool gso = link::kernel_has_segmentation(fd);
    const bool gro = setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof on) == 0;
    if (gso && gro)
        out.push_back({"offloads", Result::ok, "the kernel splits and merges UDP bursts (GSO, GRO)", {}});
    else
        out.push_back({"offloads", Result::warn,
                       std::string("the kernel lacks ") +
                           (gso   ? "UDP_GRO"
                            : gro ? "UDP_SEGMENT"
                                  : "UDP_SEGMENT and UDP_GRO") +
                           ": each packet costs a system call's share",
                       "a kernel of 5.0 or later"});
}

}  // namespace

std::string limit_text(rlim_t limit) { return limit == RLIM_INFINITY ? "unlimited" : std::to_string(limit); }

// Two processes that are not each other's parent, as two programs are.
void check_memory_exchange(std::vector<Finding>& out) {
    const pid_t target = fork();
    if (target == 0) {
        pause();
        _exit(0);
    }
    int status = 0;
    const pid_t reader = target > 0 ? fork() : -1;
    if (reader == 0) read_from(target);
    const bool ran = reader > 0 && waitpid(reader, &status, 0) == reader && WIFEXITED(status);
    if (target > 0) {
        kill(target, SIGKILL);
        waitpid(target, nullptr, 0);
    }
    const int error = ran ? WEXITSTATUS(status) : EAGAIN;
    if (error == 0) {
        out.push_back({"memory-exchange",
                       Result::ok,
                       "programs of this user can read and write each other's memory",
                       {}});
        return;
    }
    const int scope = read_number("/proc/sys/kernel/yama/ptrace_scope");
    out.push_back({"memory-exchange", Result::warn,
                   std::string("process_vm_readv between programs of this user: ") + std::strerror(error) +
                       (scope > 0 ? "; kernel.yama.ptrace_scope is " + std::to_string(scope) : ""),
                   scope > 0 ? "sysctl -w kernel.yama.ptrace_scope=0, or leave it: data then goes through "
                               "shared rings and UDP"
                             : "a container needs CAP_SYS_PTRACE or a seccomp profile that allows it; "
                               "without, data goes through shared rings and UDP"});
}

void check_sockets(std::vector<Finding>& out) {
    const int fd = link::open_receive_socket(SOCK_CLOEXEC);
    if (fd < 0) {
        out.push_back({"sockets", Result::fail, std::string("no UDP socket: ") + std::strerror(errno),
                       "allow AF_INET and AF_INET6 sockets in this container"});
        return;
    }
    if (link::family_of(fd) == AF_INET)
        out.push_back({"ipv6-sockets", Result::warn,
                       "no IPv6 socket, so no GIDs but those of IPv4 addresses; is IPv6 switched off?",
                       "for IPv6 boot without ipv6.disable=1, or allow AF_INET6 sockets in this container"});
    check_receive_buffer(fd, out);
    check_offloads(fd, out);
    close(fd);
}

void check_limits(std::vector<Finding>& out) {
    const int file = create_memory_file("verbena-doctor");
    if (file >= 0)
        out.push_back({"memfd", Result::ok, "files in memory", {}});
    else
        out.push_back({"memfd", Result::warn, std::string("memfd_create: ") + std::strerror(errno),
                       "without, VERBENA_DISABLE=memfd works, and no tool sees the counters"});
    if (file >= 0) close(file);

    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    out.push_back({"open-files", limit.rlim_cur < kFewFiles ? Result::warn : Result::ok,
                   limit_text(limit.rlim_cur) + " open files",
                   limit.rlim_cur < kFewFiles ? "ulimit -n 4096" : std::string()});
    getrlimit(RLIMIT_MEMLOCK, &limit);
    const std::string locked =
        limit.rlim_cur == RLIM_INFINITY ? "unlimited" : megabytes(static_cast<std::size_t>(limit.rlim_cur));
    out.push_back({"locked-memory",
                   Result::ok,
                   locked + " may be locked; Verbena locks none, so regions may be larger",
                   {}});
}

}  // namespace verbena::tool
