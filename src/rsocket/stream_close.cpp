// The end of a stream: shutdown, and a close that delivers what was sent.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/reason.h"
#include "rsocket/stream.h"
#include "rsocket/wait.h"

namespace verbena::rsocket {
namespace {

constexpr Duration kDelivery = 10 * kSecond;  // what a close waits at most for the peer's acknowledgements

}  // namespace

// Behind all data: the senders have left, or see that writable_ is false and leave.
int Stream::send_control(Lock& lock, Control control) {
    lock.unlock();
    std::lock_guard sending(send_mutex_);
    lock.lock();
    wait(lock, send_sleeper_, true, now() + kDelivery,
         [&] { return controls_ > 0 || phase_ != Phase::connected; });
    if (phase_ != Phase::connected || controls_ == 0) return 0;
    controls_--;
    return connection_.post_control(control);
}

// Until the peer's transport has everything.
void Stream::drain_sends(Lock& lock, Duration patience) {
    Sleeper sleeper;
    const Time deadline = now() + patience;
    while (wait(lock, sleeper, true, deadline, [&] { return all_sent() || phase_ != Phase::connected; }) ==
           EINTR) {
    }
}

int Stream::shutdown(int how) {
    Lock lock(mutex_);
    if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
        return fail_minus_one(EINVAL, "shutdown %d is neither SHUT_RD, SHUT_WR nor SHUT_RDWR", how);
    if (phase_ == Phase::listening && how != SHUT_WR) {
        stop_listening(lock);
        return 0;
    }
    if (broken_) return fail_minus_one(ENOTCONN, "the connection was lost");
    if (phase_ == Phase::ended && was_connected_) {
        const bool already = shut_write_;
        shut_write_ |= how != SHUT_RD;
        return already && how != SHUT_RD ? fail_minus_one(ENOTCONN, "the socket is not connected any more")
                                         : 0;
    }
    if (phase_ != Phase::connected) return fail_minus_one(ENOTCONN, "the socket is not connected");
    const bool wrote = writable_;
    if (how != SHUT_WR) readable_ = false;
    if (how != SHUT_RD) {
        writable_ = false;
        shut_write_ = true;
    }
    wake_all();
    if (!readable_ && !writable_) {
        if (int error = send_control(lock, Control::disconnect)) lost(error);
        drain_sends(lock, kDelivery);
        if (phase_ == Phase::connected) end(0);
    } else if (wrote && !writable_) {
        if (int error = send_control(lock, Control::shutdown)) lost(error);
    }
    nudge();
    return 0;
}

// Children that nobody accepted are closed, requests that nobody answered are refused.
void Stream::stop_listening(Lock& lock) {
    phase_ = Phase::ended;
    rdma_cm_id* id = std::exchange(id_, nullptr);
    std::list<std::shared_ptr<Stream>> orphans = std::move(children_);
    orphans.splice(orphans.end(), ready_);
    children_.clear();
    accept_requests(lock);
    nudge();
    lock.unlock();
    for (auto& orphan : orphans) orphan->close();
    if (id) service_.destroy_id(id);
    lock.lock();
}

void Stream::close() {
    Lock lock(mutex_);
    const bool has_listened = !children_.empty() || !ready_.empty() || !requests_.empty();
    if (phase_ == Phase::listening || has_listened) stop_listening(lock);
    if (phase_ == Phase::connected) {
        const bool abort = settings_.lingering.l_onoff && settings_.lingering.l_linger == 0;
        progress();
        // As TCP: who closes without reading what has come resets. What this side sent is delivered all the
        // same.
        const bool unread = receive_window_.available() > 0;
        readable_ = writable_ = false;
        wake_all();
        if (!abort) {
            if (int error = unread ? 0 : send_control(lock, Control::disconnect)) lost(error);
            drain_sends(lock,
                        settings_.lingering.l_onoff ? settings_.lingering.l_linger * kSecond : kDelivery);
        }
    }
    phase_ = Phase::ended;
    readable_ = writable_ = false;
    wake_all();
    lock.unlock();
    service_.wake_at(std::static_pointer_cast<Stream>(shared_from_this()), kNever);
    {
        std::scoped_lock both(send_mutex_, receive_mutex_);
        lock.lock();
    }
    rdma_cm_id* id = std::exchange(id_, nullptr);
    if (id && was_connected_) rdma_disconnect(id);
    connection_.destroy();
    for (Mapping& mapping : mappings_) ibv_dereg_mr(mapping.mr);
    mappings_.clear();
    lock.unlock();
    if (id) service_.destroy_id(id);
}

// At the end of the process: what was sent is delivered, and the peer is told. Threads may still be in calls
// and hold locks; nothing waits for them.
void Stream::farewell() {
    Lock lock(mutex_, std::try_to_lock);
    if (!lock || phase_ != Phase::connected) return;
    constexpr Duration kPatience = kSecond;
    readable_ = writable_ = false;
    if (controls_ == 0) drain_sends(lock, kPatience);
    if (phase_ != Phase::connected || controls_ == 0) return;
    controls_--;
    if (connection_.post_control(Control::disconnect) == 0) drain_sends(lock, kPatience);
}

}  // namespace verbena::rsocket
