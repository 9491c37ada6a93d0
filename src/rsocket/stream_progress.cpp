// What completes and what arrives on a stream, the credits that it owes, and what poll() says of it.
#include <endian.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/reason.h"
#include "rsocket/stream.h"

namespace verbena::rsocket {
namespace {

constexpr std::uint32_t kWriteLowWater = 2048;  // bytes that can be sent before poll() says so

int errno_of(ibv_wc_status status) {
    return status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_RNR_RETRY_EXC_ERR ? ETIMEDOUT : ECONNRESET;
}

}  // namespace

bool Stream::progress(const Waker* self) {
    if (!connection_.exists() || phase_ == Phase::connecting) return false;
    std::array<ibv_wc, 16> completions;
    unsigned received = 0;
    bool something = false;
    for (int count; (count = connection_.completions().poll(completions)) > 0;) {
        something = true;
        for (int i = 0; i < count; i++) {
            const ibv_wc& completion = completions[static_cast<unsigned>(i)];
            if (work_of(completion.wr_id) == Work::receive) received++;
            complete(completion);
        }
    }
    if (received > 0 && phase_ != Phase::ended)
        if (int error = connection_.post_receives(received)) lost(error);
    give_credits();
    if (something) wake_all(self);
    return something;
}

void Stream::complete(const ibv_wc& completion) {
    switch (work_of(completion.wr_id)) {
        case Work::receive:
            if (completion.status == IBV_WC_SUCCESS) message_arrived(be32toh(completion.imm_data));
            break;
        case Work::data:
        case Work::direct:
            sends_++;
            ring_used_ -= amount_of(completion.wr_id);
            break;
        case Work::control:
        case Work::grant:
        case Work::map:
            controls_++;
            break;
    }
    if (completion.status != IBV_WC_SUCCESS && phase_ != Phase::ended) end(errno_of(completion.status));
}

void Stream::message_arrived(std::uint32_t message) {
    heard_ = true;
    switch (kind_of(message)) {
        case Kind::data:
            if (!receive_window_.arrived(argument_of(message))) {
                fail(EPROTO, "the peer sent %u bytes, more than was granted", argument_of(message));
                end(EPROTO);
            }
            return;
        case Kind::credit:
            send_window_.credited(static_cast<std::uint16_t>(argument_of(message)), connection_.targets());
            return;
        case Kind::map:
            receive_window_.passed();
            return;
        case Kind::control:
            break;
    }
    switch (static_cast<Control>(argument_of(message))) {
        case Control::disconnect:
            peer_done_ = true;
            if (phase_ != Phase::ended) end(0);
            return;
        case Control::shutdown:
            peer_done_ = true;
            readable_ = false;
            if (!writable_ && phase_ == Phase::connected) end(0);
            return;
        case Control::keepalive:
            return;
    }
}

void Stream::give_credits() {
    while (phase_ == Phase::connected && controls_ > 0 && receive_window_.owes()) {
        controls_--;
        if (int error = connection_.post_grant(receive_window_.grant())) lost(error);
    }
}

void Stream::end(int error) {
    phase_ = Phase::ended;
    readable_ = writable_ = false;
    if (error) {
        error_ = error;
        broken_ = true;
    }
    nudge();
}

// A request could not be posted: the queue pair is gone, whatever the reason is called.
void Stream::lost(int error) {
    log(LogLevel::debug, "rsocket %d: posting failed: %s", fd(), std::strerror(error));
    end(ECONNRESET);
}

bool Stream::can_send() const {
    return phase_ == Phase::connected && writable_ && sends_ > 0 && send_window_.room() > 0 &&
           ring_used_ < connection_.send_ring().size();
}

bool Stream::all_sent() const { return sends_ == send_slots_ && controls_ == control_slots_; }

Time Stream::deadline_of(Duration timeout) const { return timeout > 0 ? now() + timeout : kNever; }

short Stream::readiness(short wanted, const Waker* self) {
    constexpr short kIn = POLLIN | POLLRDNORM, kOut = POLLOUT | POLLWRNORM;
    Lock lock(mutex_);
    progress(self);
    int events = 0;
    switch (phase_) {
        case Phase::idle:
            events = kOut | POLLHUP;
            break;
        case Phase::listening:
            if (!ready_.empty() || starved_) events = kIn;
            break;
        case Phase::connecting:
        case Phase::accepting:
            break;
        case Phase::connected: {
            if (receive_window_.available() > 0 || !readable_) events |= kIn;
            if (peer_done_ || !readable_) events |= POLLRDHUP;
            const auto ring = static_cast<std::uint32_t>(connection_.send_ring().size());
            if (!writable_ || (can_send() && ring - ring_used_ >= std::min(kWriteLowWater, ring / 2)))
                events |= kOut;
            break;
        }
        case Phase::ended:
            events = kIn | kOut | POLLRDHUP;
            // As TCP: a peer that closed is the end of what can be read; both ends closed is a hang-up.
            if (error_) events |= POLLERR;
            if (broken_ || shut_write_ || !was_connected_) events |= POLLHUP;
            break;
    }
    return static_cast<short>(events & (wanted | POLLERR | POLLHUP));
}

void Stream::arm() {
    Lock lock(mutex_);
    if (connection_.exists()) connection_.completions().arm();
}

void Stream::drain(const Waker* self) {
    Lock lock(mutex_);
    empty_descriptors(self);
}

void Stream::empty_descriptors(const Waker* self) {
    bool came = drain_nudge();
    if (connection_.exists()) came |= connection_.completions().drain();
    if (came) note_arrival(self);
}

// Keepalive: when nothing was heard since the last look, a message that the peer's transport has to
// acknowledge. A peer that is gone makes it fail, which ends the connection.
Time Stream::timer(Time time) {
    Lock lock(mutex_);
    progress();
    if (phase_ != Phase::connected || !settings_.keepalive) return kNever;
    if (!std::exchange(heard_, false) && controls_ > 0) {
        controls_--;
        if (int error = connection_.post_control(Control::keepalive)) lost(error);
    }
    return time + settings_.keepalive_idle * kSecond;
}

}  // namespace verbena::rsocket
