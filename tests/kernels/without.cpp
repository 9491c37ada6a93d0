// Runs a program as on a kernel, or in a container, without something. All else stays as it is.
//
//     without process_vm PROGRAM [WORD...]    process_vm_readv and process_vm_writev answer EPERM, as under
//                                             containers' profiles
//     without memfd PROGRAM [WORD...]         memfd_create answers EPERM, likewise
//     without madvise PROGRAM [WORD...]       madvise answers EPERM, likewise
//     without pidfd PROGRAM [WORD...]         pidfd_open answers ENOSYS, as before Linux 5.3 and under older
//                                             containers' profiles
//     without ipv6 PROGRAM [WORD...]          socket(AF_INET6) answers EAFNOSUPPORT, as where the kernel was
//                                             started with ipv6.disable=1
//
// Exit status 77: this kernel has no filter on system calls.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace {

#if defined(__x86_64__)
constexpr unsigned kMachine = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr unsigned kMachine = AUDIT_ARCH_AARCH64;
#else
#error "which AUDIT_ARCH_* is it?"
#endif

constexpr unsigned short kLoad = BPF_LD | BPF_W | BPF_ABS, kEquals = BPF_JMP | BPF_JEQ | BPF_K,
                         kReturn = BPF_RET | BPF_K;
constexpr sock_filter kLoadNumber{kLoad, 0, 0, offsetof(seccomp_data, nr)},
    kAllow{kReturn, 0, 0, SECCOMP_RET_ALLOW}, kLoadFirst{kLoad, 0, 0, offsetof(seccomp_data, args)};

constexpr sock_filter refuse(unsigned error) { return {kReturn, 0, 0, SECCOMP_RET_ERRNO | error}; }

std::vector<sock_filter> filter_without(unsigned call, unsigned error = EPERM) {
    return {kLoadNumber, {kEquals, 0, 1, call}, refuse(error), kAllow};
}

// Empty: of nothing that is known here.
std::vector<sock_filter> filter_of(const std::string& what) {
    if (what == "process_vm")
        return {kLoadNumber,
                {kEquals, 1, 0, SYS_process_vm_readv},
                {kEquals, 0, 1, SYS_process_vm_writev},
                refuse(EPERM),
                kAllow};
    if (what == "memfd") return filter_without(SYS_memfd_create);
    if (what == "madvise") return filter_without(SYS_madvise);
    if (what == "pidfd") return filter_without(SYS_pidfd_open, ENOSYS);
    if (what == "ipv6")
        return {kLoadNumber,          {kEquals, 0, 3, SYS_socket},
                kLoadFirst,           {kEquals, 0, 1, AF_INET6},
                refuse(EAFNOSUPPORT), kAllow};
    return {};
}

int fail(const char* what, int status) {
    std::fprintf(stderr, "without: %s: %s\n", what, std::strerror(errno));
    return status;
}

}  // namespace

int main(int count, char** words) {
    const std::vector<sock_filter> rest = count < 3 ? std::vector<sock_filter>() : filter_of(words[1]);
    if (rest.empty()) {
        std::fprintf(stderr, "without process_vm|memfd|madvise|pidfd|ipv6 PROGRAM [WORD...]\n");
        return 2;
    }
    // Numbers of calls are of a machine.
    std::vector<sock_filter> steps = {
        {kLoad, 0, 0, offsetof(seccomp_data, arch)}, {kEquals, 1, 0, kMachine}, kAllow};
    steps.insert(steps.end(), rest.begin(), rest.end());
    sock_fprog filter{static_cast<unsigned short>(steps.size()), steps.data()};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return fail("no new privileges", 77);  // or only root may
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) return fail("the filter", 77);
    execvp(words[2], words + 2);
    return fail(words[2], 127);
}
