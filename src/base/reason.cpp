#include "base/reason.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/failures.h"
#include "base/own_file.h"
#include "base/quick_thread_local.h"
#include "base/thread_text.h"

namespace verbena {

struct CallRecord {
    const char* name = nullptr;
    const char* object = nullptr;
    unsigned long long number = 0;
};
namespace {

struct LogTarget {
    LogLevel level = LogLevel::none;
    int fd = STDERR_FILENO;
    FileIdentity file{};  // of one of our own, which the program may close
};

LogTarget read_environment() {
    LogTarget target;
    // Not from who starts a program with raised rights: it may write where he may not.
    const char* setting = secure_getenv("VERBENA_LOG");
    if (!setting) return target;
    static constexpr const char* kNames[] = {"none", "error", "warn", "info", "debug"};
    std::size_t length = std::strcspn(setting, ",");
    for (int i = 0; i < 5; i++)
        if (std::strlen(kNames[i]) == length && std::strncmp(setting, kNames[i], length) == 0)
            target.level = static_cast<LogLevel>(i);
    if (const char* file = std::strstr(setting, ",file=")) {
        int fd = out_of_the_way(open(file + 6, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
        if (fd >= 0) target.fd = fd;
        target.file = FileIdentity::of(fd);
    }
    return target;
}

const LogTarget& log_target() {
    static const LogTarget target = read_environment();
    return target;
}

VERBENA_QUICK_THREAD_LOCAL constinit CallRecord current_call;

// One write() per line, so that lines of several threads and processes do not mix.
void write_line(const char* text) {
    char line[700];
    int n;
    if (current_call.name && current_call.object)
        n = std::snprintf(line, sizeof line, "verbena: %s(%s 0x%06llx): %s\n", current_call.name,
                          current_call.object, current_call.number, text);
    else if (current_call.name)
        n = std::snprintf(line, sizeof line, "verbena: %s: %s\n", current_call.name, text);
    else
        n = std::snprintf(line, sizeof line, "verbena: %s\n", text);
    if (n >= static_cast<int>(sizeof line)) {
        n = sizeof line - 1;
        line[n - 1] = '\n';
    }
    const LogTarget& target = log_target();
    if (target.fd != STDERR_FILENO && !target.file.is(target.fd)) return;
    if (n > 0) [[maybe_unused]]
        auto written = write(target.fd, line, static_cast<std::size_t>(n));
}

void record(int error, const char* format, std::va_list arguments) {
    char* const reason = thread_text(ThreadText::reason);
    std::vsnprintf(reason, kThreadText, format, arguments);
    if (log_enabled(LogLevel::warn)) write_line(reason);
    errno = error;
}

}  // namespace

LogLevel log_level() { return log_target().level; }

void log(LogLevel level, const char* format, ...) {
    if (!log_enabled(level)) return;
    int saved = errno;
    char text[512];
    std::va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    write_line(text);
    errno = saved;
}

int fail(int error, const char* format, ...) {
    std::va_list arguments;
    va_start(arguments, format);
    record(error, format, arguments);
    va_end(arguments);
    return error;
}

std::nullptr_t fail_null(int error, const char* format, ...) {
    std::va_list arguments;
    va_start(arguments, format);
    record(error, format, arguments);
    va_end(arguments);
    return nullptr;
}

int fail_minus_one(int error, const char* format, ...) {
    std::va_list arguments;
    va_start(arguments, format);
    record(error, format, arguments);
    va_end(arguments);
    return -1;
}

const char* last_reason() { return thread_text_so_far(ThreadText::reason); }

const char* current_call_name() { return current_call.name; }

Call::Call(const char* name, const char* object, unsigned long long number) : place_(nullptr) {
    CallRecord& record = current_call;
    if (record.name) return;
    record = {name, object, number};
    place_ = &record;
}

Call::~Call() {
    if (place_) place_->name = nullptr;
}

}  // namespace verbena
