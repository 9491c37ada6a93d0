// rpoll and rselect: rsockets and other descriptors in one set. A look at all of them, a short spin, and then
// sleep in the kernel's poll() on the rsockets' descriptors, the others and one to be woken by.
#include <poll.h>
#include <rdma/rsocket.h>
#include <sys/select.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/borrowed.h"
#include "base/call_fault.h"
#include "base/out_of_memory.h"
#include "base/reason.h"
#include "base/select_sets.h"
#include "rsocket/sleeper.h"
#include "rsocket/table.h"

namespace verbena::rsocket {
namespace {

// A program's set. The vectors are a thread's, so that polling in a loop allocates nothing; a handler that
// runs while this one sleeps may poll, too.
class PollSet {
   public:
    explicit PollSet(std::span<pollfd> wanted) : wanted_(wanted) {
        scratch_.sockets.clear();
        scratch_.kernel.clear();
        scratch_.kernel.reserve(wanted.size() + 1);  // to sleep takes no more memory than to look
        for (const pollfd& entry : wanted_) {
            scratch_.sockets.push_back(find_socket(entry.fd));
            const bool ours = scratch_.sockets.back() != nullptr;
            any_ |= ours;
            scratch_.kernel.push_back(ours ? pollfd{entry.fd, POLLIN, 0} : entry);
        }
    }
    // Also where a cancelled thread leaves.
    ~PollSet() {
        if (asleep_) end_sleep();
        scratch_.sockets.clear();
    }
    PollSet(const PollSet&) = delete;
    PollSet& operator=(const PollSet&) = delete;

    bool has_sockets() const { return any_; }

    // What it needs to sleep. An errno.
    [[nodiscard]] int prepare() { return sleeper_.prepare_or_nap(); }

    // How many entries are ready; fills their revents in.
    int look() {
        int ready = 0;
        bool others = false;
        for (std::size_t i = 0; i < wanted_.size(); i++) {
            wanted_[i].revents = 0;
            if (scratch_.sockets[i])
                wanted_[i].revents = scratch_.sockets[i]->readiness(wanted_[i].events, &sleeper_);
            else
                others |= wanted_[i].fd >= 0;
            ready += wanted_[i].revents != 0;
        }
        if (!others) return ready;
        // rsockets stand aside as -1.
        scratch_.others.clear();
        for (std::size_t i = 0; i < wanted_.size(); i++)
            scratch_.others.push_back(scratch_.sockets[i] ? pollfd{-1, 0, 0} : wanted_[i]);
        const int found = ::poll(scratch_.others.data(), scratch_.others.size(), 0);
        if (found <= 0) return found < 0 ? found : ready;
        for (std::size_t i = 0; i < wanted_.size(); i++)
            if (!scratch_.sockets[i]) wanted_[i].revents = scratch_.others[i].revents;
        return ready + found;
    }

    // From now on nothing that comes after the next look is missed.
    void begin_sleep() {
        scratch_.kernel.push_back({sleeper_.fd(), POLLIN, 0});
        asleep_ = true;
        for (const auto& socket : scratch_.sockets) {
            if (!socket) continue;
            socket->add_waker(sleeper_);
            socket->arm();
        }
    }
    // 0, or -1 with errno.
    int sleep(Time deadline) {
        timespec left{};
        deadline = sleeper_.wakes_at(deadline);
        if (deadline != kNever) {
            const Time time = std::max<Time>(deadline - now(), 0);
            left = {time / kSecond, time % kSecond};
        }
        return ppoll(scratch_.kernel.data(), scratch_.kernel.size(), deadline == kNever ? nullptr : &left,
                     nullptr);
    }
    void end_sleep() {
        asleep_ = false;
        scratch_.kernel.pop_back();
        for (std::size_t i = 0; i < wanted_.size(); i++) {
            if (!scratch_.sockets[i]) continue;
            scratch_.sockets[i]->remove_waker(sleeper_);
            if (scratch_.kernel[i].revents) scratch_.sockets[i]->drain(&sleeper_);
        }
        sleeper_.drain();
    }

   private:
    struct Scratch {
        std::vector<std::shared_ptr<Socket>> sockets;
        std::vector<pollfd> kernel, others;
    };

    std::span<pollfd> wanted_;
    Borrowed<Scratch> borrowed_;
    Scratch& scratch_ = *borrowed_;
    Sleeper sleeper_;
    bool any_ = false, asleep_ = false;
};

int poll_until(std::span<pollfd> wanted, Time deadline, int timeout) {
    PollSet set(wanted);
    if (!set.has_sockets()) return ::poll(wanted.data(), wanted.size(), timeout);
    int ready = set.look();
    if (ready != 0 || timeout == 0) return ready;
    const Time spin_until = std::min(deadline, now() + defaults().polling_time);
    do {
        if ((ready = set.look()) != 0) return ready;
    } while (now() < spin_until);
    if (set.prepare() != 0) return -1;
    for (;;) {
        set.begin_sleep();
        ready = set.look();
        int slept = 0;
        if (ready == 0) slept = set.sleep(deadline);
        const int error = errno;
        set.end_sleep();
        if (ready != 0) return ready;
        if (slept < 0) {
            errno = error;
            return -1;
        }
        if ((ready = set.look()) != 0) return ready;
        if (deadline != kNever && now() >= deadline) return 0;
    }
}

int select_until(const SelectSets& sets, int count, timeval* timeout) {
    std::vector<pollfd> wanted = sets.entries(count);
    Time deadline = kNever;
    int milliseconds = -1;
    if (timeout) {
        if (timeout->tv_sec < 0 || timeout->tv_usec < 0)
            return fail_minus_one(EINVAL, "the timeout is negative");
        const Duration duration = timeout->tv_sec * kSecond + timeout->tv_usec * kMicrosecond;
        deadline = now() + duration;
        milliseconds =
            static_cast<int>(std::min<Duration>((duration + kMillisecond - 1) / kMillisecond, INT_MAX));
    }
    const int ready = poll_until(wanted, deadline, milliseconds);
    if (timeout) {  // as Linux: what was left
        const Duration left = std::max<Duration>(deadline - now(), 0);
        *timeout = {left / kSecond, static_cast<suseconds_t>(left % kSecond / kMicrosecond)};
    }
    if (ready < 0) return ready;
    const auto bits = sets.answer(wanted);
    return bits ? *bits : fail_minus_one(EBADF, "one of the descriptors is not open");
}

}  // namespace
}  // namespace verbena::rsocket

using namespace verbena;
using namespace verbena::rsocket;

extern "C" {

int rpoll(pollfd* fds, nfds_t count, int timeout) {
    if (const Fault fault{"rpoll"}) return fault.minus_one();
    Call call("rpoll");
    if (count > 0 && !fds) return fail_minus_one(EFAULT, "the array of descriptors is NULL");
    return minus_one_if_out_of_memory([&] {
        return poll_until({fds, count}, timeout < 0 ? kNever : now() + timeout * kMillisecond, timeout);
    });
}

int rselect(int count, fd_set* readable, fd_set* writable, fd_set* exceptional, timeval* timeout) {
    if (const Fault fault{"rselect"}) return fault.minus_one();
    Call call("rselect");
    if (count < 0 || count > FD_SETSIZE)
        return fail_minus_one(EINVAL, "%d descriptors, at most %d", count, FD_SETSIZE);
    return minus_one_if_out_of_memory([&] {
        return select_until({readable, writable, exceptional}, count, timeout);
    });
}

}  // extern "C"
