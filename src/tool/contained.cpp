#include "tool/contained.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "adapter/clock.h"
#include "tool/ending_signals.h"
#include "tool/scratch_file.h"
#include "tool/words.h"

namespace verbena::tool {
namespace {

double seconds_since(Time start) {
    return static_cast<double>(adapter::now() - start) / static_cast<double>(kSecond);
}

// The signals that end us, blocked from the first use on; those that are ignored (nohup) stay so.
class Ends {
   public:
    Ends() {
        sigemptyset(&set_);
        for (const int each : ending_signals()) sigaddset(&set_, each);
        sigprocmask(SIG_BLOCK, &set_, &before_);
    }
    // 0, a little later, if none came.
    int wait_a_little() const {
        constexpr timespec kStep{0, 10'000'000};
        const int signal = sigtimedwait(&set_, nullptr, &kStep);
        return signal > 0 ? signal : 0;
    }
    void unblock() const { sigprocmask(SIG_SETMASK, &before_, nullptr); }

   private:
    sigset_t set_, before_;
};

const Ends& ends() {
    static const Ends instance;
    return instance;
}

std::vector<pid_t> children() {
    std::vector<pid_t> pids;
    std::error_code error;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
        std::ifstream file(task.path() / "children");
        for (pid_t pid; file >> pid;) pids.push_back(pid);
    }
    return pids;
}

std::string name_of(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
    std::string name;
    std::getline(file, name);
    return name;
}

// Whose parents have ended is our child now.
void end_what_is_left() {
    for (int round = 0; round < 100; round++) {
        bool any = false;
        for (const pid_t pid : children()) {
            if (name_of(pid) == "verbenad") continue;
            any = true;
            kill(pid, SIGKILL);
            waitpid(pid, nullptr, 0);
        }
        if (!any) return;
    }
}

std::string last_line(int fd) {
    constexpr std::size_t kEnough = 4096;
    char text[kEnough];
    const off_t size = lseek(fd, 0, SEEK_END);
    const ssize_t got =
        pread(fd, text, sizeof text, std::max<off_t>(0, size - static_cast<off_t>(sizeof text)));
    std::istringstream lines(std::string(text, static_cast<std::size_t>(std::max<ssize_t>(got, 0))));
    std::string last;
    for (std::string line; std::getline(lines, line);)
        if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
    constexpr std::size_t kMost = 200;
    return last.substr(0, kMost);
}

[[noreturn]] void begin(const std::vector<std::string>& command, int output) {
    ends().unblock();
    setsid();
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(nothing, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    _exit(become(command));
}

}  // namespace

Contained run_contained(const std::vector<std::string>& command, double timeout) {
    Contained result;
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    std::FILE* const output = std::tmpfile();
    const Time start = adapter::now();
    const Ends& interruptions = ends();
    const pid_t child = fork();
    if (child < 0) {
        result.exit_status = 126;
        result.last_words = std::string("fork: ") + std::strerror(errno);
        if (output) std::fclose(output);
        return result;
    }
    if (child == 0) begin(command, output ? fileno(output) : STDERR_FILENO);
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
        result.interrupted_by = interruptions.wait_a_little();
        result.timed_out = !result.interrupted_by && seconds_since(start) > timeout;
        if (result.interrupted_by || result.timed_out) {
            kill(-child, SIGKILL);
            kill(child, SIGKILL);  // perhaps it leads no group yet
            waitpid(child, &status, 0);
            break;
        }
    }
    result.seconds = seconds_since(start);
    result.exit_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    kill(-child, SIGKILL);
    end_what_is_left();
    remove_abandoned_files();  // a command that is killed could not
    if (output) {
        result.last_words = last_line(fileno(output));
        std::fclose(output);
    }
    return result;
}

}  // namespace verbena::tool
