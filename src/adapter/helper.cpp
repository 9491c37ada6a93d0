// The helper thread: what it does while somebody polls, while nobody does, and while it rests (engine.h).
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <optional>
#include <utility>

#include "adapter/clock.h"
#include "adapter/engine.h"
#include "adapter/precedence.h"
#include "adapter/presence.h"
#include "adapter/waiting.h"
#include "adapter/yielding.h"
#include "base/put_off.h"
#include "base/reason.h"
#include "base/signal_event.h"

namespace verbena::adapter {
namespace {

constexpr Duration kBreath = kMillisecond;  // for others to give memory back
// A hesitation where packets often come that soon: to fall asleep and be woken takes no less of it.
constexpr Duration kLongHesitation = 40 * kMicrosecond;
constexpr Duration kComputes = 400 * kMicrosecond;  // who has the processor for longer than that
constexpr unsigned kLooksAYield = 16;               // at most, while nobody else wants the processor

}  // namespace

std::atomic<unsigned> Engine::helpers_{0};

void* Engine::run(void* engine) {
    helpers_++;
    static_cast<Engine*>(engine)->helper();
    helpers_--;
    return nullptr;
}

void Engine::helper() {
    const Presence presence(adapter_.presence());
    constexpr unsigned long kSlack = 1;  // ns: it sleeps until a deadline, not until some 50 us later
    prctl(PR_SET_TIMERSLACK, kSlack, 0UL, 0UL, 0UL);
    take_precedence();
    look_at_share(now());
    while (!stop_.load()) {
        const Mode mode = mode_.load();
        // Somebody polls, and when nobody does any more we notice.
        link_.set_polled(mode == Mode::watching);
        if (mode != Mode::armed) adapter_.set_crowded(false);
        try {
            take_turn(mode);
        } catch (const std::bad_alloc&) {
            // What was under way is as good as lost on the way: it comes again.
            log(LogLevel::error, "no memory for what goes on in the background");
            const timespec nap = to_timespec(kBreath);
            ppoll(nullptr, 0, &nap, nullptr);
        }
    }
    link_.set_polled(false);
}

void Engine::take_turn(Mode mode) {
    switch (mode) {
        case Mode::watching:
            return stand_by();
        case Mode::armed:
            return stand_in();
        case Mode::resting:
            take_orders(false);
    }
}

// The helper has been woken up.
void Engine::kicked() {
    take_events(kick_fd_);
    if (farewell_.load() != Farewell::wanted) return;
    adapter_.push_all_acknowledgements(now());
    farewell_.store(Farewell::said);
}

// False: a glance has told that nothing is there, or that somebody else is at it.
bool Engine::look_in_turn(bool glance, unsigned& done) {
    if (!glance)
        done = adapter_.progress_in_turn(now);
    else if (!adapter_.glance(now, done, true))
        return false;
    helper_turns_.fetch_add(1, std::memory_order_relaxed);
    posted();
    return true;
}

void Engine::look_at_share(Time now) {
    if (const std::optional<bool> small = share_.is_small(now)) adapter_.set_crowded(*small);
}

// Waits for a kick or, if it `watches`, for the watchdog; true if a kick came. What watch() asked for is
// looked at as well, and what has gathered for too long, as the alarm says.
bool Engine::take_orders(bool watches) {
    for (;;) {
        // In this order: either what begins to wait now is seen here, or who posts it sees that we sleep.
        asleep_.store(true);
        posted();
        pollfd fds[4] = {{kick_fd_, POLLIN, 0},
                         {watched_fd_, POLLIN, 0},
                         {gathering_timer_.fd(), POLLIN, 0},
                         {watchdog_.fd(), POLLIN, 0}};
        const int ready = poll_until(fds, watches ? 4 : 3, look_around_at_);
        asleep_.store(false);
        if (lost_files()) return true;
        look_around_if_due();
        helper_turns_.fetch_add(1, std::memory_order_relaxed);
        if (ready < 0) return false;
        if (fds[1].revents) look_at_watched();
        if (fds[0].revents) {
            kicked();
            return true;
        }
        if (fds[2].revents) {
            gathering_timer_.take();
            adapter_.look_at_gathered(now());
        }
        if (fds[3].revents) return false;
    }
}

void Engine::look_around_if_due() {
    if (look_around_at_ == kNever) return;
    const Time time = now();
    if (time < look_around_at_) return;
    look_around_at_ = time + look_around_every_;
    look_around_(time);
}

void Engine::look_at_watched() {
    if (!ready_ || !ready_()) watched_fd_ = -1;
}

// After each sleep: while it lasted the program may have closed what it did not know, and opened other files.
bool Engine::lost_files() {
    if (files_are_ours()) return false;
    stop_.store(true);
    lost_();
    return true;
}

// Somebody polls: nothing to do but to notice when nobody does any more.
void Engine::stand_by() {
    const Time began = now();
    const bool ended = polls_end();
    streak_.went_on(now() - began);
    if (!ended) return;
    const bool rest = lending_.load();
    Mode expected = Mode::watching;
    if (!mode_.compare_exchange_strong(expected, rest ? Mode::resting : Mode::armed)) return;
    if (rest) {
        // The lender may have left between the look and the change; then it saw no need to wake us.
        expected = Mode::resting;
        if (!lending_.load()) mode_.compare_exchange_strong(expected, Mode::watching);
    } else {
        lends_.store(false, std::memory_order_relaxed);
        left_alone_ = true;
    }
}

// Waits for that; false: a kick came.
bool Engine::polls_end() {
    watched_rounds_.store(adapter_.long_rounds());
    for (Time due = now() + Watchdog::kPatience;; due = now() + Watchdog::kRest) {
        watchdog_.start(due);
        do
            if (take_orders(true)) return false;
        while (!watchdog_.is_over(now()));
        // A call that transmits for a millisecond is no poll, and yet somebody is there.
        const std::uint64_t rounds = adapter_.long_rounds();
        if (watched_rounds_.exchange(rounds) == rounds) return true;
    }
}

// Nobody polls: do it for them, sleeping in between.
void Engine::stand_in() {
    while (mode_.load() == Mode::armed && !stop_.load()) {
        const bool served = serve();
        if (std::exchange(left_alone_, false)) streak_.is_over(served);
        const Time until = enter_sleep();
        pollfd fds[4] = {{kick_fd_, POLLIN, 0},
                         {watched_fd_, POLLIN, 0},
                         {link_.wait_fd(), POLLIN, 0},
                         {timer_.fd(), POLLIN, 0}};
        const int ready = poll_until(fds, 4, std::min(until, look_around_at_));
        if (lost_files()) return;
        leave_sleep();
        look_around_if_due();
        helper_turns_.fetch_add(1, std::memory_order_relaxed);
        if (ready <= 0) continue;
        if (fds[0].revents) kicked();
        if (fds[1].revents) look_at_watched();
        if (fds[3].revents) timer_fired();
    }
    posted();  // the timer that has just been taken is for whoever sleeps now
}

// The thread that was woken goes on, if this is its processor, and soon waits for more. Or somebody gets it
// who computes, and keeps it for some milliseconds: one of those costs as much as many of the others gain.
// Returns whether it still has to get it.
bool Engine::hand_over() {
    constexpr unsigned kMany = 64;
    const Duration away = yield_to_others();
    if (away > kComputes) {
        handing_over_.in_vain();
        handed_over_ = 0;
    } else if (++handed_over_ == kMany) {
        handing_over_.paid();
    }
    return away < kSwitch;
}

// Handles what there is, and goes on for a moment after the last packet. True if there was anything.
bool Engine::serve() {
    bool any = false, asked = false, lingers = false;
    bool handing = false;  // who was woken may still have to get the processor
    bool hesitates = false, outlasted = false, paid = false;  // outlasted: a moment, since the last packet
    unsigned glances = 0;                                     // until the next full look
    unsigned looks = 0, looks_a_yield = 1;                    // full ones, since the last yield
    for (Time last = now();;) {
        unsigned done = 0;
        if (!look_in_turn(glances > 0, done)) {
            glances--;
            continue;
        }
        glances = kGlances;
        if (done > 0) {
            // The same packet has woken them, perhaps, but we took it. They go on, and not we.
            if (nappers_.any()) {
                signal_event(nap_fd_);
                return true;
            }
            if (!any) {
                lingers = lingering_.pays();
                hesitates = !lingers && hesitating_.pays();
            }
            any = true;
            paid |= hesitates && std::exchange(outlasted, false);
            last = now();
            if (share_.is_due(last)) look_at_share(last);
            if (PutOff::woke() && handing_over_.pays()) {
                handing = hand_over();
                last = now();
            }
            continue;
        }
        if (!any || mode_.load(std::memory_order_relaxed) != Mode::armed) return any;
        const Duration waited = now() - last;
        if (waited > (lingers ? kLinger : hesitates ? kLongHesitation : kHesitation)) {
            if (asked) lingering_.paid();
            // Who was away for longer has not looked whether something came.
            if (paid)
                hesitating_.paid();
            else if (hesitates && waited < 2 * kLongHesitation)
                hesitating_.in_vain();
            return any;
        }
        outlasted = waited > kHesitation;
        if (!lingers || ++looks < looks_a_yield) continue;
        const Duration away = yield_to_others();
        if (away > kSwitch && away < kComputes && std::exchange(handing, false)) {
            last = now();
            continue;
        }
        if (away > kLongYield) {
            lingering_.in_vain();
            return any;
        }
        asked = true;
        looks = 0;
        looks_a_yield = away > kSwitch ? 1 : std::min(2 * looks_a_yield, kLooksAYield);
    }
}

}  // namespace verbena::adapter
