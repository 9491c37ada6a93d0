// Requests that gather. By a wire a call of the kernel's costs more than all else about a small message, and
// one call takes sixty-four of them in a burst. So where a program posts one request behind the other, those
// of one packet wait for each other.
//
// A row: requests that were posted close behind each other, within 20 us or eight calls, nobody of the
// program having waited in between (polled in vain). From the eighth of a row on they wait, or from its first
// if the row before had as many. A list is no row by itself, and what does not gather ends one. No request
// waits while nothing is under way: what a program is going to wait for leaves at once.
//
// They leave together when they fill a burst; when somebody waits for something; in front of anything that
// does not gather; and when the first has waited for 50 us, or sixteen calls, up to 1 ms. Then the helper
// looks, which takes the program's processor: while it finds each time that they have left, it looks later,
// after up to 1 ms.
//
// As Nagle's algorithm for TCP, but that it waits for no acknowledgement.
#include <algorithm>
#include <new>
#include <utility>

#include "adapter/state.h"
#include "link/hooks.h"
#include "transport/copy.h"

namespace verbena::adapter {

namespace {
constexpr Duration kClose = 20 * kMicrosecond;
constexpr int kCloseCalls = 8, kPosts = 16;
constexpr Duration kLongestCall = 64 * kMicrosecond;
constexpr unsigned kRow = 8;
constexpr std::uint64_t kMostBytes = 64 << 10;
}  // namespace

// The longest of the last few, up to some.
void Adapter::State::post_took(Duration time) {
    const Duration known = call_time_.load(std::memory_order_relaxed);
    call_time_.store(std::max(std::min(time, kLongestCall), known - known / 8), std::memory_order_relaxed);
}

// All of them, or none. What goes on with a list is of the row that the list is of.
bool Adapter::State::may_gather(Slot& slot, std::span<const transport::SendRequest> requests,
                                bool list_goes_on, Time now) {
    if (!gathers_ || requests.empty() || link::packet_faults()) return false;
    for (const transport::SendRequest& request : requests)
        if (!slot.qp->may_gather(request)) {
            if (slot.gathering) slot.gathering->row = slot.gathering->last_row = 0;
            return false;
        }
    if (!slot.gathering && !begin_rows(slot, now)) return false;
    Gathering& row = *slot.gathering;
    const std::uint32_t looks = looks_.load(std::memory_order_relaxed);
    const Duration close = std::max(kClose, kCloseCalls * call_time_.load(std::memory_order_relaxed));
    if (looks == row.looks && (list_goes_on || now - row.posted_at <= close)) {
        if (!list_goes_on)
            row.row = static_cast<unsigned>(std::min<std::size_t>(row.row + requests.size(), kRow));
    } else {
        row.last_row = row.row;
        row.row = 1;
    }
    row.looks = looks;
    row.posted_at = now;
    if ((row.row < kRow && row.last_row < kRow) || !slot.qp->is_under_way()) return false;
    if (slot.gathered > 0) return true;
    wire::PacketSink& sink = link.borrow_sink();
    row.most = slot.qp->packets_together(sink);
    sink.flush();
    link.return_sink(sink);
    return row.most > 1;
}

// Not for queue pairs whose packets go to this host by memory. What is under way is the first of a row.
bool Adapter::State::begin_rows(Slot& slot, Time now) {
    if (!slot.qp->is_under_way()) return false;
    slot.gathering.reset(new (std::nothrow) Gathering{
        .posted_at = now, .looks = looks_.load(std::memory_order_relaxed), .row = 1});
    return slot.gathering != nullptr;
}

// They have been posted. False: that is enough, and they leave.
bool Adapter::State::gather(Slot& slot, std::span<const transport::SendRequest> requests, Time now) {
    const bool begins = slot.gathered == 0;
    const std::size_t together = slot.gathered + requests.size();
    std::uint64_t bytes = begins ? 0 : slot.gathering->bytes;
    for (const transport::SendRequest& request : requests) bytes += transport::total_length(request.sges);
    if (together >= slot.gathering->most || bytes >= kMostBytes) return false;
    slot.gathered = static_cast<std::uint32_t>(together);
    slot.gathering->bytes = static_cast<std::uint32_t>(bytes);
    if (begins) {
        const Duration calls = std::min(kPosts * call_time_.load(std::memory_order_relaxed), kLongestWait);
        slot.gathering->until = now + std::max(gathering_wait_.load(std::memory_order_relaxed), calls);
        enlist_gathering(slot);
    }
    return true;
}

void Adapter::State::enlist_gathering(Slot& slot) {
    std::lock_guard guard(gathering_lock_);
    if (!std::exchange(slot.enlisted, true)) gathering_.push_back(&slot);
    const Time until = slot.gathering->until;
    if (until >= gathers_until.load(std::memory_order_relaxed)) return;
    gathers_until.store(until);
    timers.set(gathering_timer_, until);
}

// Those that are nearly due leave as well, so that many queue pairs are not looked at one by one.
bool Adapter::State::push_gathered(Time now, Gathered which) {
    if (gathers_until.load(std::memory_order_relaxed) == kNever) return false;
    {
        std::lock_guard guard(gathering_lock_);
        gathered_.swap(gathering_);
        for (Slot* slot : gathered_) slot->enlisted = false;
        gathers_until.store(kNever);
        timers.set(gathering_timer_, kNever);
    }
    bool due = false;
    for (Slot* slot : gathered_) {
        std::unique_lock lock(slot->lock);
        if (!slot->qp || slot->gathered == 0) continue;
        const Duration left = slot->gathering->until - now;
        if (which == Gathered::due && left > kShortestWait) {
            enlist_gathering(*slot);
            continue;
        }
        due |= left <= 0;
        memory::Section section(segment.sections());
        remember(transmit(*slot, now, false));
    }
    gathered_.clear();
    return due;
}

void Adapter::State::gathered_in_time(Time now, bool adapts) {
    if (gathers_until.load() > now) return;
    const bool due = push_gathered(now, Gathered::due);
    if (adapts) adapt_gathering_wait(due);
}

void Adapter::State::adapt_gathering_wait(bool due) {
    const Duration wait = gathering_wait_.load(std::memory_order_relaxed);
    gathering_wait_.store(due ? kShortestWait : std::min(2 * wait, kLongestWait), std::memory_order_relaxed);
}

void Adapter::State::look_at_gathered(Time now) {
    if (gathers_until.load() > now) return adapt_gathering_wait(false);  // they have left
    std::lock_guard lock(progress_lock);
    gathered_in_time(now, true);
    serve_crowded(now);
}

}  // namespace verbena::adapter
