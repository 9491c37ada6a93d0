// Runs a program for which the kernel forbids process_vm_readv and process_vm_writev, as containers' profiles
// do: both answer EPERM. All else stays allowed.
//
//     without_process_vm PROGRAM [WORD...]
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

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

int fail(const char* what) {
    std::fprintf(stderr, "without_process_vm: %s: %s\n", what, std::strerror(errno));
    return 126;
}

}  // namespace

int main(int count, char** words) {
    if (count < 2) {
        std::fprintf(stderr, "without_process_vm PROGRAM [WORD...]\n");
        return 2;
    }
    sock_filter steps[] = {
        {kLoad, 0, 0, offsetof(seccomp_data, arch)},  // numbers of calls are of a machine
        {kEquals, 0, 4, kMachine},
        {kLoad, 0, 0, offsetof(seccomp_data, nr)},
        {kEquals, 1, 0, SYS_process_vm_readv},
        {kEquals, 0, 1, SYS_process_vm_writev},
        {kReturn, 0, 0, SECCOMP_RET_ERRNO | EPERM},
        {kReturn, 0, 0, SECCOMP_RET_ALLOW},
    };
    sock_fprog filter{sizeof steps / sizeof *steps, steps};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return fail("no new privileges");  // or only root may
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) return fail("the filter");
    execvp(words[1], words + 1);
    return fail(words[1]);
}
