#include "adapter/polling_thread.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <string_view>

#include "base/no_cancellation.h"

namespace verbena::adapter {
namespace {

// As the kernel numbers the clocks of the threads' processor times (CPUCLOCK_PERTHREAD, CPUCLOCK_SCHED).
clockid_t processor_clock_of(pid_t thread) {
    constexpr unsigned kOfThread = 4, kOfScheduler = 2;
    return static_cast<clockid_t>(~static_cast<unsigned>(thread) << 3 | kOfThread | kOfScheduler);
}

}  // namespace

PollingThread::~PollingThread() { close_file(); }

// Unless the program has, and has another one by its number.
void PollingThread::close_file() {
    if (file_ >= 0 && identity_.is(file_)) close(file_);
}

// It opens the file itself, once: were it the helper, a thread of the program that opens another at the same
// moment would not get the number that it counts on.
void PollingThread::begins() {
    const pid_t self = gettid();
    thread_.store(self, std::memory_order_relaxed);
    const NoCancellation whole;
    const std::lock_guard guard(lock_);
    if (opened_by_ == self) return;
    close_file();
    opened_by_ = self;
    file_ = out_of_the_way(open("/proc/thread-self/stat", O_RDONLY | O_CLOEXEC));
    identity_ = FileIdentity::of(file_);
}

void PollingThread::goes_on() {
    if (thread_.load(std::memory_order_relaxed) != gettid())
        thread_.store(kNobody, std::memory_order_relaxed);
}

Duration PollingThread::ran() const {
    const pid_t thread = thread_.load(std::memory_order_relaxed);
    timespec time;
    if (thread == kNobody || clock_gettime(processor_clock_of(thread), &time) != 0) return -1;
    return time.tv_sec * kSecond + time.tv_nsec;
}

// "1234 (its name) S ...", and a name may have anything in it.
bool PollingThread::is_runnable() const {
    std::array<char, 128> text;
    const std::lock_guard guard(lock_);
    if (file_ < 0 || opened_by_ != thread_.load(std::memory_order_relaxed)) return false;
    const ssize_t length = pread(file_, text.data(), text.size(), 0);
    const std::string_view line(text.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
    const std::size_t name_ends = line.rfind(") ");
    return name_ends != std::string_view::npos && line.substr(name_ends + 2).starts_with('R');
}

}  // namespace verbena::adapter
