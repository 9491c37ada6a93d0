// Requests that gather. By a wire a call of the kernel's costs more than all else about a small message, and
// one call takes sixty-four of them in a burst. So where a program posts one request behind the other, those
// of one packet wait for each other.
//
// A row: requests that were posted close behind each other, nobody having polled in vain in between. From the
// eighth of a row on they wait, or from its second if the row before had as many. Nothing waits while nothing
// is under way: what a program is going to wait for leaves at once.
//
// They leave together when they fill a burst; when somebody polls in vain; in front of anything that does not
// gather; and when the first has waited for 50 us, or for as long as sixteen posts take, if that is longer.
// Then the helper looks, which takes the program's processor: while it finds each time that they have left,
// it looks later, after up to 1 ms.
//
// As Nagle's algorithm for TCP, but that it waits for no acknowledgement.
#include <algorithm>
#include <utility>

#include "adapter/state.h"
#include "base/mutation.h"
#include "link/hooks.h"
#include "transport/copy.h"

namespace verbena::adapter {

namespace {
constexpr Duration kClose = 50 * kMicrosecond;  // or a round trip
constexpr unsigned kRow = 8;
constexpr int kPosts = 16;
constexpr std::uint64_t kMostBytes = 64 << 10;
}  // namespace

// All of them, or none.
bool Adapter::State::may_gather(Slot& slot, std::span<const transport::SendRequest> requests, Time now) {
    if (!gathers_ || link::packet_faults()) return false;
    Gathering& row = slot.gathering;
    const std::uint32_t looks = looks_.load(std::memory_order_relaxed);
    const Duration gap = now - row.posted_at;
    const bool close = gap <= std::max(kClose, std::min(slot.qp->round_trip(), kLongestWait));
    if (close) row.gap += (gap - row.gap) / 4;
    if (looks != row.looks || !close) row.last_row = std::exchange(row.row, 0);
    row.looks = looks;
    row.posted_at = now;
    row.row = static_cast<unsigned>(std::min<std::size_t>(row.row + requests.size(), kRow));
    if (row.row < kRow && row.last_row < kRow) return false;
    for (const transport::SendRequest& request : requests)
        if (!slot.qp->may_gather(request)) return false;
    if (slot.gathered > 0) return true;
    wire::PacketSink& sink = link.borrow_sink();
    row.most = slot.qp->packets_together(sink);
    sink.flush();
    link.return_sink(sink);
    return row.most > 1;
}

// They have been posted. False: that is enough, and they leave.
bool Adapter::State::gather(Slot& slot, std::span<const transport::SendRequest> requests, Time now) {
    const bool begins = slot.gathered == 0;
    const std::size_t together = slot.gathered + requests.size();
    std::uint64_t bytes = begins ? 0 : slot.gathering.bytes;
    for (const transport::SendRequest& request : requests) bytes += transport::total_length(request.sges);
    if (together >= slot.gathering.most || bytes >= kMostBytes) return false;
    slot.gathered = static_cast<std::uint32_t>(together);
    slot.gathering.bytes = static_cast<std::uint32_t>(bytes);
    if (begins) {
        const Duration posts = std::min(kPosts * slot.gathering.gap, kLongestWait);
        slot.gathering.until = now + std::max(gathering_wait_.load(std::memory_order_relaxed), posts);
        enlist_gathering(slot);
    }
    return true;
}

void Adapter::State::enlist_gathering(Slot& slot) {
    if (mutated(Mutation::gathered_forgotten)) return;
    std::lock_guard guard(gathering_lock_);
    if (!std::exchange(slot.enlisted, true)) gathering_.push_back(&slot);
    const Time until = slot.gathering.until;
    if (until >= gathers_until.load(std::memory_order_relaxed)) return;
    gathers_until.store(until);
    timers.set(gathering_timer_, until);
}

bool Adapter::State::push_gathered(Time now, Gathered which) {
    if (gathers_until.load(std::memory_order_relaxed) == kNever) return false;
    bool any = false;
    {
        std::lock_guard guard(gathering_lock_);
        gathered_.swap(gathering_);
        for (Slot* slot : gathered_) slot->enlisted = false;
        gathers_until.store(kNever);
        timers.set(gathering_timer_, kNever);
    }
    for (Slot* slot : gathered_) {
        std::unique_lock lock(slot->lock);
        if (!slot->qp || slot->gathered == 0) continue;
        if (which == Gathered::due && slot->gathering.until > now) {
            enlist_gathering(*slot);
            continue;
        }
        memory::Section section(segment.sections());
        remember(transmit(*slot, now, false));
        any = true;
    }
    gathered_.clear();
    return any;
}

void Adapter::State::look_at_gathered(Time now) {
    bool any = false;
    if (gathers_until.load() <= now) {
        std::lock_guard lock(progress_lock);
        any = push_gathered(now, Gathered::due);
        serve_crowded(now);
    }
    const Duration wait = gathering_wait_.load(std::memory_order_relaxed);
    gathering_wait_.store(any ? kShortestWait : std::min(2 * wait, kLongestWait), std::memory_order_relaxed);
}

}  // namespace verbena::adapter
