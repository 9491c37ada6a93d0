#include "interpose/events.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/no_cancellation.h"
#include "base/own_file.h"
#include "base/write_all.h"
#include "interpose/fork_lock.h"
#include "interpose/lost_events.h"
#include "interpose/show.h"
#include "interpose/words.h"

namespace verbena::interpose {
namespace {

struct File {
    const char* path = nullptr;
    bool data = true;
    int fd = -1;
    FileIdentity identity;
    bool half_line = false;               // the last line may have no end
    std::atomic<pid_t> process = 0;       // whose the following is
    std::uint64_t began = 0;              // when this library was loaded, or a forked child's first event
    bool announced = false;               // its own line has been written
    std::uint64_t lost = 0, lost_at = 0;  // events since the last one that was written
    int lost_error = 0;
    LostEvents* losses = nullptr;  // of all processes, for the command
};

constinit ForkLock file_lock;
constinit File file;

// Read once, before the program can change its environment.
[[gnu::constructor]] void read_environment() {
    const char* path = std::getenv("VERBENA_TRACE_EVENTS");
    if (path && *path) file.path = strdup(path);
    file.began = wall_clock();
    file.process = getpid();
    const char* data = std::getenv("VERBENA_TRACE_DATA");
    file.data = !data || std::strcmp(data, "0") != 0;
    if (const char* losses = std::getenv(LostEvents::kVariable)) file.losses = LostEvents::open(losses);
}

// A forked child has a line of its own, and has lost nothing yet. Under the lock.
void begin_process(pid_t process, std::uint64_t time) {
    file.process = process;
    file.began = time;
    file.announced = false;
    file.lost = 0;
}

pid_t own_thread() { return static_cast<pid_t>(syscall(SYS_gettid)); }

// What follows answers 0, or the errno for which something was not written.

int open_file() {
    const int low = open(file.path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (low < 0) return errno;
    file.fd = out_of_the_way(low);
    file.identity = FileIdentity::of(file.fd);
    return 0;
}

// Nothing is put behind half a line.
int append(std::string_view line) {
    int error = file.half_line ? write_all(file.fd, "\n") : 0;
    if (!error) error = write_all(file.fd, line);
    file.half_line = error != 0;
    return error;
}

// Takes the line away.
int append_and_end(Line& line) {
    line.close('}');
    line.raw("\n");
    const int error = append(line.view());
    line.give_back();
    return error;
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

int announce() {
    Line line;
    line.take();
    begin_event(line, "process", file.began);
    add_arguments(line);
    char text[PATH_MAX] = "";
    gethostname(text, sizeof text - 1);
    line.key("host").text(text);
    const ssize_t size = readlink("/proc/self/exe", text, sizeof text);
    line.key("exe").text({text, size > 0 ? static_cast<std::size_t>(size) : 0});
    const int error = append_and_end(line);
    file.announced = error == 0;
    return error;
}

int tell_what_was_lost() {
    Line line;
    line.take();
    begin_event(line, "lost", file.lost_at);
    line.key("count").unsigned_number(file.lost);
    show_named(line.key("errno"), error_name(file.lost_error), file.lost_error);
    const int error = append_and_end(line);
    if (!error) file.lost = 0;
    return error;
}

int append_event(std::string_view line) {
    int error = file.identity.is(file.fd) ? 0 : open_file();
    if (!error && !file.announced) error = announce();
    if (!error && file.lost) error = tell_what_was_lost();
    return error ? error : append(line);
}

void note_loss(int error) {
    if (!file.lost++) file.lost_at = wall_clock();
    file.lost_error = error;
    if (file.losses) file.losses->add(error);
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
    const pid_t process = getpid();
    if (file.process.load(std::memory_order_relaxed) != process) {
        Locked locked(file_lock);
        if (file.process != process) begin_process(process, time);
    }
    line.open('{');
    line.key("k").text(kind);
    line.key("t").unsigned_number(time);
    line.key("pid").number(process);
    line.key("tid").number(own_thread());
}

void write_event(Line& line) {
    const int before = errno;
    line.close('}');
    line.raw("\n");
    {
        const NoCancellation no_cancellation;  // write(2) is a point of it
        Locked locked(file_lock);
        if (const pid_t process = getpid(); file.process != process) begin_process(process, wall_clock());
        if (const int error = append_event(line.view())) note_loss(error);
    }
    errno = before;
}

}  // namespace verbena::interpose
