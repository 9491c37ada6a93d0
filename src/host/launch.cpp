#include "host/launch.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/reason.h"
#include "host/own_limits.h"
#include "host/unix_socket.h"

namespace verbena::host {
namespace {

constexpr int kReadyDescriptor = 3;     // of the daemon: where it says that it serves, or why not
constexpr int kReadyTimeoutMs = 8'000;  // old clients of a dead daemon may hold the port for two seconds

// The folder of the file that contains this code, without links.
std::string own_folder() {
    Dl_info info{};
    char path[PATH_MAX];
    if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0 || !info.dli_fname) return {};
    // A program's own name may be relative to where it was started; a library's path has a slash.
    bool found = std::strchr(info.dli_fname, '/') && realpath(info.dli_fname, path);
    if (!found && !realpath("/proc/self/exe", path)) return {};
    std::string folder = path;
    return folder.substr(0, folder.rfind('/'));
}

// Everything that the new process needs, made before clone(): behind it only system calls are allowed.
struct Plan {
    std::string path;
    std::vector<std::string> arguments;
    std::vector<char*> argument_pointers;
    std::string log_setting;
    std::vector<char*> environment;
    int ready_pipe[2] = {-1, -1};
    int null_device = -1;
    unsigned descriptor_limit = 0;
};

void close_from(unsigned first, unsigned limit) {
#ifdef SYS_close_range
    if (syscall(SYS_close_range, first, ~0u, 0) == 0) return;
#endif
    for (unsigned fd = first; fd < limit; fd++) close(static_cast<int>(fd));
}

// _exit() as the kernel has it: sanitizers put work of theirs into _exit(), for which they take locks that
// another thread of the program may hold in this copy for ever.
[[noreturn]] void leave(int status) {
    for (;;) syscall(SYS_exit_group, status);
}

[[noreturn]] void report_and_exit(int ready, const char* text) {
    ssize_t ignored = write(ready, text, std::strlen(text));
    static_cast<void>(ignored);
    leave(127);
}

int above_standard(int fd) { return fd > kReadyDescriptor ? fd : fcntl(fd, F_DUPFD, kReadyDescriptor + 1); }

// In the daemon-to-be, on a copy of the program's memory.
[[noreturn]] void become_daemon(Plan& plan) {
    setsid();
    raise_limits();
    // Out of the way first, so that the copies onto 0..3 overwrite nothing that is still needed.
    const int ready = above_standard(plan.ready_pipe[1]);
    const int null_device = above_standard(plan.null_device);
    if (ready < 0 || null_device < 0)
        report_and_exit(plan.ready_pipe[1], "it may not open enough files (ulimit -n)");
    for (int fd = 0; fd < kReadyDescriptor; fd++) dup2(null_device, fd);
    dup2(ready, kReadyDescriptor);
    close_from(kReadyDescriptor + 1, plan.descriptor_limit);
    if (chdir("/") != 0) report_and_exit(kReadyDescriptor, "cannot change to the root folder");
    if (!raise_stack_limit()) report_and_exit(kReadyDescriptor, "it may have too small a stack (ulimit -s)");
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execve(plan.path.c_str(), plan.argument_pointers.data(), plan.environment.data());
    report_and_exit(kReadyDescriptor, "cannot execute it");
}

// fork() without the exit signal and without the program's atfork handlers. Untraced: without the exit signal
// a debugger takes the copy for a thread of the program, and then the daemon for the program.
pid_t quiet_fork() {
    return static_cast<pid_t>(syscall(SYS_clone, CLONE_UNTRACED, nullptr, nullptr, nullptr, nullptr));
}

int run_detached(Plan& plan) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // no handler of the program may run in the copies
    pid_t middle = quiet_fork();
    if (middle == 0) {
        pid_t child = quiet_fork();
        if (child == 0) become_daemon(plan);
        leave(child < 0 ? 1 : 0);
    }
    int error = middle < 0 ? errno : 0;
    if (middle > 0) {
        int status = 0;
        while (waitpid(middle, &status, __WCLONE) < 0 && errno == EINTR) {
        }
        if (WIFEXITED(status) && WEXITSTATUS(status) != 0) error = EAGAIN;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return error;
}

// What the daemon says: "ok", or why it cannot serve.
int read_answer(int fd, const std::string& path) {
    char text[400];
    std::size_t size = 0;
    for (;;) {
        if (wait_readable(fd, kReadyTimeoutMs) != 0)
            return fail(ETIMEDOUT, "%s was started but does not answer", path.c_str());
        ssize_t n = read(fd, text + size, sizeof text - 1 - size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0 || size + static_cast<std::size_t>(n) >= sizeof text - 1) break;
        size += static_cast<std::size_t>(n);
    }
    text[size] = '\0';
    if (std::strcmp(text, "ok") == 0) return 0;
    return fail(ENODEV, "%s could not be started: %s", path.c_str(), size ? text : "it ended without a word");
}

// "NAME=...,file=path", with the path made absolute: the daemon leaves the program's folder.
std::string with_absolute_path(const std::string& setting) {
    constexpr std::string_view kFile = ",file=";
    std::size_t at = setting.find(kFile);
    if (at != std::string::npos) at += kFile.size();
    return at < setting.size() ? setting.substr(0, at) + absolute_path(setting.substr(at)) : setting;
}

void prepare(Plan& plan, const std::string& fabric) {
    plan.arguments = {plan.path, "--fabric", fabric, "--ready-fd", std::to_string(kReadyDescriptor)};
    for (std::string& argument : plan.arguments) plan.argument_pointers.push_back(argument.data());
    plan.argument_pointers.push_back(nullptr);
    for (char** entry = environ; entry && *entry; entry++) {
        // What was preloaded into the program is not meant for the daemon.
        if (std::strncmp(*entry, "LD_PRELOAD=", 11) == 0) continue;
        if (std::strncmp(*entry, "VERBENA_LOG=", 12) == 0 && plan.log_setting.empty()) {
            plan.log_setting = with_absolute_path(*entry);
            plan.environment.push_back(plan.log_setting.data());
        } else {
            plan.environment.push_back(*entry);
        }
    }
    plan.environment.push_back(nullptr);
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    plan.descriptor_limit = limit.rlim_cur < 65536 ? static_cast<unsigned>(limit.rlim_cur) : 65536;
}

}  // namespace

std::string absolute_path(const std::string& path) {
    char folder[PATH_MAX];
    if (path.empty() || path[0] == '/' || !getcwd(folder, sizeof folder)) return path;
    return std::string(folder) + "/" + path;
}

int find_daemon(std::string& path) {
    if (const char* setting = secure_getenv("VERBENA_DAEMON"); setting && *setting) {
        path = setting;
        if (access(setting, X_OK) == 0) return 0;
        return fail(errno, "VERBENA_DAEMON=%s: %s", setting, std::strerror(errno));
    }
    const std::string folder = own_folder();
    // Of the build, of an installation (`make install`), and of a folder with everything in it.
    for (const char* place : {"/../bin/verbenad", "/../../libexec/verbena/verbenad", "/../../bin/verbenad",
                              "/../libexec/verbena/verbenad", "/verbenad"}) {
        path = folder + place;
        if (access(path.c_str(), X_OK) == 0) return 0;
    }
    return fail(ENOENT,
                "verbenad is neither in bin nor in libexec/verbena beside the libraries' folder %s; "
                "VERBENA_DAEMON can name it",
                folder.c_str());
}

int launch_daemon(const std::string& fabric) {
    Plan plan;
    if (int error = find_daemon(plan.path)) return error;
    prepare(plan, fabric);
    plan.null_device = open("/dev/null", O_RDWR | O_CLOEXEC);
    // Of a place without devices, what can be neither read nor written.
    if (plan.null_device < 0) plan.null_device = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (plan.null_device < 0) return fail(errno, "/dev/null and /: %s", std::strerror(errno));
    if (pipe2(plan.ready_pipe, O_CLOEXEC) != 0) {
        int error = errno;
        close(plan.null_device);
        return fail(error, "pipe: %s", std::strerror(error));
    }
    int error = run_detached(plan);
    close(plan.null_device);
    close(plan.ready_pipe[1]);
    error = error ? fail(error, "starting %s: %s", plan.path.c_str(), std::strerror(error))
                  : read_answer(plan.ready_pipe[0], plan.path);
    close(plan.ready_pipe[0]);
    return error;
}

}  // namespace verbena::host
