// Sending on a stream: the program's bytes are copied into the send ring and written into the buffer that the
// peer granted, in messages that grow, so that the first bytes leave while the rest is copied.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/reason.h"
#include "rsocket/stream.h"
#include "rsocket/wait.h"

namespace verbena::rsocket {
namespace {

constexpr std::uint32_t kFirstMessage = 8 << 10;
constexpr std::uint32_t kLargestMessage = 64 << 10;

}  // namespace

// What TCP says: an error that is pending once, ECONNRESET once if the peer has closed, then EPIPE; without
// SIGPIPE, as in rdma-core: programs written for rsend() expect none.
int Stream::why_not_writable() {
    if (int error = std::exchange(error_, 0)) return error;
    if (phase_ == Phase::ended && was_connected_ && !shut_write_ && !broken_ &&
        !std::exchange(reset_told_, true))
        return fail(ECONNRESET, "the peer has closed the connection");
    return fail(EPIPE, "%s",
                shut_write_ ? "the socket was shut down for sending" : "the socket is not connected");
}

// `partly`: something was sent, and the next call tells why no more was.
int Stream::wait_to_send(Lock& lock, int flags, Time deadline, bool partly) {
    const auto ended = [&] { return partly ? EPIPE : why_not_writable(); };
    if (phase_ == Phase::connecting || phase_ == Phase::accepting)
        if (int error = wait(lock, send_sleeper_, blocks(flags), deadline,
                             [&] { return phase_ != Phase::connecting && phase_ != Phase::accepting; }))
            return error;
    if (!writable_) return ended();
    if (maps_pending_)
        if (int error = send_maps(lock, flags, deadline)) return error;
    if (can_send()) return 0;
    if (int error =
            wait(lock, send_sleeper_, blocks(flags), deadline, [&] { return can_send() || !writable_; }))
        return error;
    return writable_ ? 0 : ended();
}

// Room for the next message, at most `wanted` bytes of it: contiguous in the ring. One that is copied into
// the request itself (inline) borrows the place only while it is posted.
std::uint8_t* Stream::reserve(std::uint32_t& wanted) {
    const auto size = static_cast<std::uint32_t>(connection_.send_ring().size());
    if (ring_used_ == 0) ring_head_ = 0;
    const std::uint32_t to_end = size - ring_head_;
    wanted = std::min({wanted, size - ring_used_, to_end});
    std::uint8_t* place = connection_.send_ring().data() + ring_head_;
    sends_--;
    if (wanted > connection_.inline_limit()) {
        ring_used_ += wanted;
        ring_head_ = (ring_head_ + wanted) % size;
    }
    return place;
}

ssize_t Stream::send(Cursor data, int flags, const Address*) {
    if (flags & MSG_OOB) return fail_minus_one(EOPNOTSUPP, "rsockets have no urgent data");
    const Turn sending(*this, send_mutex_, blocks(flags));
    if (!sending) return -1;
    Lock lock(mutex_);
    const Time deadline = deadline_of(settings_.send_timeout);
    const std::size_t total = data.left();
    std::uint32_t most = kFirstMessage;
    do {
        if (total == 0 && writable_) return 0;
        const bool partly = data.left() < total;
        if (int error = wait_to_send(lock, flags, deadline, partly)) {
            if (partly) break;
            errno = error;
            return -1;
        }
        auto length =
            static_cast<std::uint32_t>(std::min<std::size_t>({data.left(), most, send_window_.room()}));
        most = std::min(most * 2, kLargestMessage);
        std::uint8_t* place = reserve(length);
        const Target to = send_window_.take(length);
        lock.unlock();
        data.copy_out(place, length);
        const int error = connection_.post_data(place, to, length <= connection_.inline_limit());
        lock.lock();
        if (error) lost(error);
    } while (data.left() > 0);
    return static_cast<ssize_t>(total - data.left());
}

}  // namespace verbena::rsocket
