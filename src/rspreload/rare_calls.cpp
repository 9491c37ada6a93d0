// Calls by which few programs move data: several messages at once, vectors with flags, and pipes. They are
// made of those in data_calls.cpp.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "rspreload/entries.h"
#include "rspreload/real.h"

using namespace verbena::rspreload;

namespace {

std::size_t length_of(const msghdr& message) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < message.msg_iovlen; i++) length += message.msg_iov[i].iov_len;
    return length;
}

std::int64_t nanoseconds_now() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

// As Linux: looked at behind each message, and told how much is left.
class Patience {
   public:
    explicit Patience(timespec* time) : time_(time) {
        if (time_) ends_ = nanoseconds_now() + time_->tv_sec * std::int64_t{1'000'000'000} + time_->tv_nsec;
    }
    bool is_over() {
        if (!time_) return false;
        const std::int64_t left = std::max<std::int64_t>(ends_ - nanoseconds_now(), 0);
        *time_ = {left / 1'000'000'000, left % 1'000'000'000};
        return left == 0;
    }

   private:
    timespec* const time_;
    std::int64_t ends_ = 0;
};

ssize_t fails(int error) {
    errno = error;
    return -1;
}

// A socket has no places; -1 is where it stands.
template <class Move>
ssize_t at_no_place(const iovec* pieces, int count, off_t at, int flags, Move move) {
    if (at != -1) return fails(ESPIPE);
    if (flags & ~(RWF_NOWAIT | RWF_HIPRI)) return fails(EOPNOTSUPP);
    if (count < 0 || count > IOV_MAX) return fails(EINVAL);
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(pieces);
    message.msg_iovlen = static_cast<std::size_t>(count);
    return move(message, flags & RWF_NOWAIT ? MSG_DONTWAIT : 0);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
    if (!find(fd)) return real().sendmmsg(fd, messages, count, flags);
    unsigned sent = 0;
    while (sent < count) {
        mmsghdr& each = messages[sent];
        const ssize_t size = sendmsg(fd, &each.msg_hdr, flags);
        if (size < 0) return sent > 0 ? static_cast<int>(sent) : -1;
        each.msg_len = static_cast<unsigned>(size);
        sent++;
        if (each.msg_len < length_of(each.msg_hdr)) break;
    }
    return static_cast<int>(sent);
}

int recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags, timespec* timeout) {
    if (!find(fd)) return real().recvmmsg(fd, messages, count, flags, timeout);
    Patience patience(timeout);
    unsigned received = 0;
    while (received < count) {
        const ssize_t size = recvmsg(fd, &messages[received].msg_hdr, flags & ~MSG_WAITFORONE);
        if (size < 0) return received > 0 ? static_cast<int>(received) : -1;
        messages[received++].msg_len = static_cast<unsigned>(size);
        if (flags & MSG_WAITFORONE) flags |= MSG_DONTWAIT;
        if (patience.is_over()) break;
    }
    return static_cast<int>(received);
}

ssize_t preadv2(int fd, const iovec* pieces, int count, off_t at, int flags) {
    if (!find(fd)) return real().preadv2(fd, pieces, count, at, flags);
    return at_no_place(pieces, count, at, flags,
                       [&](msghdr& message, int as) { return recvmsg(fd, &message, as); });
}
ssize_t preadv64v2(int fd, const iovec* pieces, int count, off_t at, int flags) {
    return preadv2(fd, pieces, count, at, flags);
}

ssize_t pwritev2(int fd, const iovec* pieces, int count, off_t at, int flags) {
    if (!find(fd)) return real().pwritev2(fd, pieces, count, at, flags);
    return at_no_place(pieces, count, at, flags,
                       [&](const msghdr& message, int as) { return sendmsg(fd, &message, as); });
}
ssize_t pwritev64v2(int fd, const iovec* pieces, int count, off_t at, int flags) {
    return pwritev2(fd, pieces, count, at, flags);
}

// EINVAL is what says that this end cannot, and that the program has to copy.
ssize_t splice(int from, off64_t* from_at, int to, off64_t* to_at, std::size_t size, unsigned flags) {
    for (const int end : {from, to})
        if (find(end) && rsocket_for(end, Use::look) != kPlain) return fails(EINVAL);
    return real().splice(from, from_at, to, to_at, size, flags);
}

}  // extern "C"
#pragma GCC visibility pop
