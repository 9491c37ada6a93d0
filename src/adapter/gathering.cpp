// Requests that gather. By a wire a call of the kernel's costs more than all else about a small message, and
// one call takes sixty-four of them in a burst. So where a program posts one request behind the other, to one
// queue pair or to many, those of one packet wait for each other (outgoing.h).
//
// A row: requests that a thread posted close behind each other, within 20 us or eight calls, nobody of the
// program having waited in between (polled in vain). From the eighth of a row on they wait, or from its first
// where rows have lately been as long, each before the last counting half of the one behind it. A list is no
// row by itself, and what does not gather ends one. No request waits while nothing is under way to its peer:
// what a program is going to wait for leaves at once. (Of datagrams nobody knows: the first of a row leaves.
// Their completions, and those of UC, do not wait.)
//
// They leave together when they fill a burst, or half of one that took long to make, if the peer may
// have nothing else to do meanwhile; when somebody waits for something; with anything that does not gather,
// or in front of it if it takes the long way; and when the first has waited for 50 us, or sixteen calls, up
// to 1 ms. Then the helper looks, which takes the program's processor: while it finds each time that they
// have left, it looks later, after up to 1 ms.
//
// As Nagle's algorithm for TCP, but that it waits for no acknowledgement.
#include <algorithm>
#include <mutex>

#include "adapter/state.h"
#include "link/hooks.h"

namespace verbena::adapter {

namespace {
constexpr Duration kClose = 20 * kMicrosecond;
constexpr int kCloseCalls = 8, kPosts = 16;
constexpr Duration kLongestCall = 64 * kMicrosecond;
constexpr unsigned kRow = 8;
constexpr unsigned kTogether = 64;  // packets
constexpr Duration kLongHalf = 6 * kMicrosecond;
constexpr std::uint32_t kLittle = 16 << 10;  // bytes under way, as the window counts them
constexpr std::size_t kMostBytes = 64 << 10;
}  // namespace

// The longest of the last few, up to some.
void Adapter::State::post_took(Duration time) {
    const Duration known = call_time_.load(std::memory_order_relaxed);
    call_time_.store(std::max(std::min(time, kLongestCall), known - known / 8), std::memory_order_relaxed);
}

// All of them, or none. What goes on with a list is of the row that the list is of.
bool Adapter::State::may_gather(Outgoing& out, const transport::QueuePair& qp,
                                std::span<const transport::SendRequest> requests, bool list_goes_on,
                                Time now) {
    if (!gathers_ || link::packet_faults()) return false;
    const std::uint32_t looks = looks_.load(std::memory_order_relaxed);
    const Duration close = std::max(kClose, kCloseCalls * call_time_.load(std::memory_order_relaxed));
    const bool goes_on = looks == out.looks && (list_goes_on || now - out.posted_at <= close);
    const std::uint32_t under_way = qp.under_way(goes_on);
    if (out.waiting == 0) out.alone_since = under_way <= kLittle ? now : kNever;
    if (under_way > 0 && !qp.may_gather(requests)) {
        out.row = out.last_row = 0;
        return false;
    }
    if (goes_on) {
        if (!list_goes_on)
            out.row = static_cast<unsigned>(std::min<std::size_t>(out.row + requests.size(), kTogether));
    } else {
        out.last_row = std::max(out.row, out.last_row / 2);
        out.row = 1;
    }
    out.looks = looks;
    out.posted_at = now;
    return under_way > 0 && (out.row >= kRow || out.last_row >= kRow);
}

// They have been posted. False: that is enough, or they have left already.
bool Adapter::State::gather(Outgoing& out, transport::QueuePair& qp, std::size_t requests, Time now) {
    const std::size_t bytes = out.held() ? out.held()->pause() : 0;
    if (bytes == 0 || bytes >= kMostBytes || out.waiting + requests >= kTogether) return false;
    const Time until = out.until.load(std::memory_order_relaxed);
    if (now >= until) return false;
    const bool were_half = out.waiting >= kTogether / 2;
    out.waiting += static_cast<unsigned>(requests);
    qp.newest_wait(static_cast<unsigned>(requests));
    if (until != kNever)
        return were_half || out.waiting < kTogether / 2 || now - out.alone_since <= kLongHalf;
    const Duration calls = std::min(kPosts * call_time_.load(std::memory_order_relaxed), kLongestWait);
    wait_until(out, now + std::max(gathering_wait_.load(std::memory_order_relaxed), calls));
    return true;
}

// Most of a row: where others of its queue pair or thread wait already, and still will. False: nothing was
// done.
bool Adapter::State::post_behind(Slot& slot, const transport::SendRequest& request, Time now) {
    Boarding boarding(*this, slot);
    Outgoing& out = boarding.out();
    if (out.waiting == 0 || out.waiting + 1 >= kTogether ||
        now >= out.until.load(std::memory_order_relaxed) ||
        !may_gather(out, *slot.qp, {&request, 1}, false, now))
        return false;
    wire::PacketSink& sink = boarding.sink();
    const Straight follows = slot.qp->post_straight({&request, 1}, sink, &sink, now).follows;
    if (follows == transport::QueuePair::kDeclined) {
        sink.pause();  // which may have a peer's lock
        return false;
    }
    keep_timer(slot, follows);
    if (!gather(out, *slot.qp, 1, now)) leave(out);
    return true;
}

void Adapter::State::wait_until(Outgoing& out, Time until) {
    out.until.store(until);
    std::lock_guard guard(gathering_lock_);
    if (until >= gathers_until.load(std::memory_order_relaxed)) return;
    gathers_until.store(until);
    timers.set(gathering_timer_, until);
}

// Those that are nearly due leave as well, so that those of many threads are not looked at one by one.
bool Adapter::State::push_gathered(Time now, Gathered which) {
    bool due = false;
    for (Outgoing& out : outgoings_) {
        const Time until = out.until.load(std::memory_order_relaxed);
        if (until == kNever || (which == Gathered::due && until - now > kShortestWait)) continue;
        due |= until <= now;
        std::lock_guard guard(out.lock);
        leave(out);
    }
    std::lock_guard guard(gathering_lock_);
    Time next = kNever;
    for (const Outgoing& out : outgoings_) next = std::min(next, out.until.load());
    gathers_until.store(next);
    timers.set(gathering_timer_, next);
    return due;
}

// The timer has rung, or would have. It is set anew, whoever else has let them leave meanwhile.
void Adapter::State::gathered_in_time(Time now, bool adapts) {
    const bool due = push_gathered(now, Gathered::due);
    if (adapts) adapt_gathering_wait(due);
}

void Adapter::State::adapt_gathering_wait(bool due) {
    const Duration wait = gathering_wait_.load(std::memory_order_relaxed);
    gathering_wait_.store(due ? kShortestWait : std::min(2 * wait, kLongestWait), std::memory_order_relaxed);
}

void Adapter::State::look_at_gathered(Time now) {
    if (gathers_until.load() > now) return adapt_gathering_wait(false);  // they have left
    gathered_in_time(now, true);
}

}  // namespace verbena::adapter
