// Receiving on a stream: copying out of the receive buffer, and granting what was read anew.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/reason.h"
#include "rsocket/stream.h"
#include "rsocket/wait.h"

namespace verbena::rsocket {

ssize_t Stream::receive(Cursor room, int flags, Address*, int*) {
    if (flags & MSG_OOB) return fail_minus_one(EINVAL, "rsockets have no urgent data");
    const Turn receiving(*this, receive_mutex_, blocks(flags));
    if (!receiving) return -1;
    Lock lock(mutex_);
    if (phase_ == Phase::idle || phase_ == Phase::listening)
        return fail_minus_one(ENOTCONN, "the socket is not connected");
    const Time deadline = deadline_of(settings_.receive_timeout);
    const std::size_t total = room.left();
    const bool all = (flags & MSG_WAITALL) && !(flags & MSG_PEEK);
    if (!readable_) progress();  // what came before the end is still read
    std::size_t copied = 0;
    std::uint32_t peeked = 0;
    while (room.left() > 0) {
        const std::uint32_t available = receive_window_.available() - peeked;
        if (available == 0) {
            if (copied > 0 && !all) break;
            const int error = wait(lock, receive_sleeper_, blocks(flags), deadline, [&] {
                return receive_window_.available() > 0 || (phase_ == Phase::connected && !readable_) ||
                       phase_ == Phase::ended;
            });
            if (error) {
                if (copied > 0) break;
                errno = error;
                return -1;
            }
            if (receive_window_.available() > 0) continue;
            if (copied == 0 && error_) {
                errno = std::exchange(error_, 0);
                return -1;
            }
            break;
        }
        auto piece = receive_window_.piece(peeked);
        piece.length = static_cast<std::uint32_t>(std::min<std::size_t>(piece.length, room.left()));
        lock.unlock();
        if (flags & MSG_TRUNC)
            room.skip(piece.length);  // as TCP: thrown away
        else
            room.copy_in(connection_.receive_buffer().data() + piece.offset, piece.length);
        lock.lock();
        copied += piece.length;
        if (flags & MSG_PEEK) {
            peeked += piece.length;
            if (peeked == receive_window_.available()) break;
        } else {
            receive_window_.read(piece.length);
            give_credits();
        }
    }
    return static_cast<ssize_t>(total - room.left());
}

std::size_t Stream::readable_bytes() {
    Lock lock(mutex_);
    progress();
    return receive_window_.available();
}

}  // namespace verbena::rsocket
