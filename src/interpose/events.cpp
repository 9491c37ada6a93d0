#include "interpose/events.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/no_cancellation.h"
#include "base/own_file.h"
#include "interpose/fork_lock.h"

namespace verbena::interpose {
namespace {

struct File {
    const char* path = nullptr;
    bool data = true;
    int fd = -1;
    FileIdentity identity;
    pid_t announced = 0;       // the process whose first line has been written
    std::uint64_t loaded = 0;  // when this library was, and by whom
    pid_t loaded_by = 0;
};

constinit ForkLock file_lock;
constinit File file;

// Read once, before the program can change its environment.
[[gnu::constructor]] void read_environment() {
    const char* path = std::getenv("VERBENA_TRACE_EVENTS");
    if (path && *path) file.path = strdup(path);
    file.loaded = wall_clock();
    file.loaded_by = getpid();
    const char* data = std::getenv("VERBENA_TRACE_DATA");
    file.data = !data || std::strcmp(data, "0") != 0;
}

pid_t own_thread() { return static_cast<pid_t>(syscall(SYS_gettid)); }

void open_file() {
    const int low = open(file.path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (low < 0) return;
    file.fd = out_of_the_way(low);
    file.identity = FileIdentity::of(file.fd);
}

void put(std::string_view text) {
    for (ssize_t size; !text.empty(); text.remove_prefix(static_cast<std::size_t>(size))) {
        size = write(file.fd, text.data(), text.size());
        if (size < 0 && errno != EINTR) return;
        if (size < 0) size = 0;
    }
}

void add_arguments(Line& line) {
    line.key("argv").open('[');
    if (const int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC); fd >= 0) {
        static char words[4096];  // under the lock
        const ssize_t size = read(fd, words, sizeof words);
        close(fd);
        for (ssize_t at = 0; at < size;) {
            const std::size_t length = strnlen(words + at, static_cast<std::size_t>(size - at));
            line.text({words + at, length});
            at += static_cast<ssize_t>(length) + 1;
        }
    }
    line.close(']');
}

void announce(pid_t process) {
    Line line;
    line.take();
    // A child after fork() begins now.
    begin_event(line, "process", process == file.loaded_by ? file.loaded : wall_clock());
    add_arguments(line);
    char text[PATH_MAX] = "";
    gethostname(text, sizeof text - 1);
    line.key("host").text(text);
    const ssize_t size = readlink("/proc/self/exe", text, sizeof text);
    line.key("exe").text({text, size > 0 ? static_cast<std::size_t>(size) : 0});
    line.close('}');
    line.raw("\n");
    put(line.view());
    line.give_back();
    file.announced = process;
}

std::uint64_t read_clock(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace

bool tracing() { return file.path != nullptr; }
bool tracing_data() { return file.data; }

std::uint64_t wall_clock() { return read_clock(CLOCK_REALTIME); }
std::uint64_t steady_clock() { return read_clock(CLOCK_MONOTONIC); }

void begin_event(Line& line, const char* kind, std::uint64_t time) {
    line.open('{');
    line.key("k").text(kind);
    line.key("t").unsigned_number(time);
    line.key("pid").number(getpid());
    line.key("tid").number(own_thread());
}

void write_event(Line& line) {
    const int before = errno;
    line.close('}');
    line.raw("\n");
    {
        const NoCancellation no_cancellation;  // write(2) is a point of it
        Locked locked(file_lock);
        if (!file.identity.is(file.fd)) open_file();
        if (file.fd >= 0) {
            if (const pid_t process = getpid(); file.announced != process) announce(process);
            put(line.view());
        }
    }
    errno = before;
}

}  // namespace verbena::interpose
