#include "daemon/loop.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "daemon/clock.h"

namespace verbena::daemon {
namespace {

constexpr int kEvents = 64;
constexpr Duration kLongestWait = 3600 * kSecond;

}  // namespace

Loop::Loop() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

int Loop::add(int fd, std::uint32_t events, Handler handler) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = next_token_;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return errno;
    tokens_[fd] = next_token_;
    entries_[next_token_++] = std::make_shared<Entry>(Entry{fd, std::move(handler)});
    return 0;
}

void Loop::change(int fd, std::uint32_t events) {
    auto token = tokens_.find(fd);
    if (token == tokens_.end()) return;
    epoll_event event{};
    event.events = events;
    event.data.u64 = token->second;
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Loop::remove(int fd) {
    auto token = tokens_.find(fd);
    if (token == tokens_.end()) return;
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    entries_.erase(token->second);
    tokens_.erase(token);
}

unsigned Loop::run_once(Time deadline) {
    // Rounded up: a wait that ends before its deadline would only be repeated.
    const Duration wait = std::clamp<Duration>(deadline - now(), 0, kLongestWait);
    std::array<epoll_event, kEvents> events;
    const int count = epoll_wait(epoll_.get(), events.data(), kEvents,
                                 static_cast<int>((wait + kMillisecond - 1) / kMillisecond));
    unsigned called = 0;
    for (int i = 0; i < count; i++) {
        // A copy: the kernel's structure is packed on x86, so its members bind to no reference.
        const std::uint64_t token = events[static_cast<std::size_t>(i)].data.u64;
        auto found = entries_.find(token);
        if (found == entries_.end()) continue;
        std::shared_ptr<Entry> entry = found->second;  // lives through its own removal
        entry->handler(events[static_cast<std::size_t>(i)].events);
        called++;
    }
    return called;
}

}  // namespace verbena::daemon
