#include "daemon/files.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/reason.h"
#include "host/unix_socket.h"

namespace verbena::daemon {
namespace {

constexpr std::uint32_t kWatched = EPOLLIN | EPOLLRDHUP;

bool is_unix_seqpacket(int fd) {
    int domain = 0, type = 0;
    socklen_t size = sizeof domain;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain != AF_UNIX) return false;
    size = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
}

}  // namespace

Files::Files(Loop& loop, std::uint32_t first_number, Closed closed)
    : loop_(loop), next_number_(first_number), closed_(std::move(closed)) {}

int Files::create(SessionNumber owner, Descriptor end, cm::FileNumber& number) {
    if (!is_unix_seqpacket(end.get()))
        return fail(EINVAL, "an event channel's file is no SOCK_SEQPACKET socket");
    while (next_number_ == 0 || files_.contains(next_number_)) next_number_++;
    number = next_number_++;
    if (int error = loop_.add(end.get(), kWatched,
                              [this, file = number](std::uint32_t events) { ready(file, events); }))
        return fail(error, "an event channel's file cannot be watched");
    files_.emplace(number, File{owner, std::move(end), {}, false});
    return 0;
}

void Files::close(cm::FileNumber number) {
    auto found = files_.find(number);
    if (found == files_.end()) return;
    loop_.remove(found->second.end.get());
    files_.erase(found);
}

void Files::deliver(cm::FileNumber number, const cm::Event& event, std::uint32_t count) {
    auto found = files_.find(number);
    if (found == files_.end()) return;
    File& file = found->second;
    if (file.waiting.empty()) unsent_.push_back(number);
    for (; count > 0; count--) file.waiting.push_back(event);
}

void Files::flush() {
    for (const cm::FileNumber number : unsent_)
        if (auto found = files_.find(number); found != files_.end()) send_waiting(found->second);
    unsent_.clear();
}

void Files::send_waiting(File& file) {
    bool full = false;
    while (!file.waiting.empty() && !full) {
        std::array<iovec, host::kMostDatagrams> parts;
        const std::size_t count = std::min(parts.size(), file.waiting.size());
        for (std::size_t i = 0; i < count; i++) parts[i] = {&file.waiting[i], sizeof(cm::Event)};
        std::size_t sent = 0;
        const int error = host::send_datagrams(file.end.get(), std::span(parts).first(count), sent);
        full = error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS;
        if (error && !full) sent = count;  // the program is gone, as the loop will tell
        file.waiting.erase(file.waiting.begin(), file.waiting.begin() + static_cast<std::ptrdiff_t>(sent));
    }
    if (full == file.full) return;
    file.full = full;
    loop_.change(file.end.get(), full ? kWatched | EPOLLOUT : kWatched);
}

void Files::ready(cm::FileNumber number, std::uint32_t events) {
    auto found = files_.find(number);
    if (found == files_.end()) return;
    if (events & EPOLLOUT) send_waiting(found->second);
    // Programs never write to theirs, so anything to read is its end, or a program that does not follow the
    // protocol.
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) closed_(number);
}

int Files::descriptor(cm::FileNumber number) const {
    auto found = files_.find(number);
    return found == files_.end() ? -1 : found->second.end.get();
}

SessionNumber Files::owner(cm::FileNumber number) const {
    auto found = files_.find(number);
    return found == files_.end() ? 0 : found->second.owner;
}

}  // namespace verbena::daemon
