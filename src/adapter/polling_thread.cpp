#include "adapter/polling_thread.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/no_cancellation.h"
#include "base/thread_state.h"

namespace verbena::adapter {

// It opens the file itself, once: were it the helper, a thread of the program that opens another at the same
// moment would not get the number that it counts on.
void PollingThread::begins() {
    const pid_t self = gettid();
    thread_.store(self, std::memory_order_relaxed);
    const NoCancellation whole;
    const std::lock_guard guard(lock_);
    if (opened_by_ == self) return;
    opened_by_ = self;
    file_.close();  // so that the next has its number: programs' tests count descriptors by their numbers
    file_.reset(out_of_the_way(open(kOwnStat, O_RDONLY | O_CLOEXEC)));
}

void PollingThread::goes_on() {
    if (thread_.load(std::memory_order_relaxed) != gettid())
        thread_.store(kNobody, std::memory_order_relaxed);
}

Duration PollingThread::ran() const { return processor_time(thread_.load(std::memory_order_relaxed)); }

bool PollingThread::is_runnable() const {
    const std::lock_guard guard(lock_);
    return opened_by_ == thread_.load(std::memory_order_relaxed) && opener_wants_processor(file_.get());
}

}  // namespace verbena::adapter
