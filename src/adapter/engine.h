// Who moves the packets: mostly the program's own threads, while they post and poll; when they do not, one
// helper thread that otherwise sleeps.
//
// Watching: somebody polls. The helper sleeps until nobody has for a millisecond or two (watchdog.h), or
// requests have waited for others for long enough (gathering.cpp), and does nothing else.
// Armed: nobody polls. The helper sleeps on the link's descriptor and the next timer. Resting: a thread of
// the program is blocked in wait_readable() and does the helper's work itself.
//
// Watching becomes armed (or resting) when the polls have ended, or at once by arm(); armed becomes watching
// when polls come in quick succession (poll_streak.h). After serving a packet, whoever sleeps otherwise first
// polls for 50 us, yielding, since an answer often follows; where others want the processor for 5 us, and the
// helper for 40 if packets often come by then (base/trial.h). Nothing wakes up while nothing happens; a
// thread that would have to wait for the helper never does.
//
// What this gives up: a program that stops polling waits some 2 ms for the helper, and so does a peer that
// went to sleep in the nanoseconds in which such a program sent it something (Link::set_polled).
// Posting much counts as polling (posted), so a program that does nothing else looks every 200 us of that.
//
// Thread safety: all calls.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

#include "adapter/adapter.h"
#include "adapter/alarm.h"
#include "adapter/nappers.h"
#include "adapter/patience.h"
#include "adapter/poll_streak.h"
#include "adapter/processor_share.h"
#include "adapter/waiting.h"
#include "adapter/watchdog.h"
#include "base/own_file.h"
#include "base/time.h"
#include "base/trial.h"
#include "link/link.h"

namespace verbena::adapter {

class Engine {
   public:
    // Neither thread nor descriptor exists before start().
    Engine(Adapter& adapter, link::Link& link);
    // Ends the helper. No thread may be in any call.
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    // Calls `ready`, in the helper, when `fd` becomes readable or its other end is closed; the last time is
    // when it answers false. Once the program has closed `fd`, and with it perhaps all that is ours, it calls
    // `lost`, and ends: who else has such a number now is not read from. Before start().
    void watch(int fd, std::function<bool()> ready, std::function<void()> lost);
    // As far as `fd` tells.
    bool files_are_ours() const { return lifeline_ < 0 || lifeline_file_.is(lifeline_); }

    // The helper calls that as often, or later if it is busy. Before start().
    void look_around(Duration every, std::function<void(Time)> look);

    // Makes the helper, all signals blocked in it; later calls do nothing. With the first queue pair. 0, or
    // errno with a reason.
    int start();

    // The caller found its completion queue empty. True if packets were handled or timers ran, so that
    // looking again may pay. Yields the processor when called in vain again and again.
    bool poll_progress();
    // Or it found something there: its next poll in vain is the first in a row.
    static void poll_found();

    // Handles what has come and is due, without regard to who polls; the number of packets and timers.
    unsigned progress(Time now, Adapter::Caller caller = Adapter::Caller::waits);

    // ibv_req_notify_cq: the caller will soon sleep on something that it does not tell us (a channel in
    // poll()). Requests that wait for others leave.
    void arm();

    // After a post, a modify or whatever else moved the adapter: whoever sleeps gets to know of an earlier
    // timer, or else the helper of requests that wait for others, unless it will look by then anyway.
    void posted() {
        if (const Time until = sleeping_until_.load(); until != kNobody) {
            if (const Time deadline = adapter_.next_deadline(); deadline < until) lower_timer(deadline);
        } else if (const Time by = gathers_until_.load(); by < gathering_timer_.set() && asleep_.load()) {
            gathering_timer_.ring_by(by);
        }
    }
    // After a post that began at `since` and may have copied much. A program that does nothing but post large
    // messages looks at its completions seldom, and would have the helper at its side for each of them: so
    // what has come meanwhile is handled, now and then, as by a poll; unless it sleeps for them (arm()) and
    // has polled little since, when the helper stays.
    void posted(Time since);

    // The program ends: acknowledgements that were held back leave, so that its peer's last message does not
    // fail. By the helper, for a signal may have ended the program in the middle of anything; waits for it 10
    // ms at most.
    void farewell();

    enum class Wait { readable, timed_out, interrupted };
    // Blocks until the descriptor is readable, and drives the adapter meanwhile. One that is O_NONBLOCK is
    // not waited for (some 50 us, by a call that finds it so for the first time): packets are handled once,
    // and the answer is `readable`. `interrupted`: a signal came, and not every handler asks for calls to be
    // restarted (SA_RESTART).
    Wait wait_readable(Awaited& awaited, Time deadline = kNever);
    // The same without driving anything.
    static Wait wait_alone(int fd, Time deadline);

    // The threads of all engines of this process; after a fork the child has none of its parent's.
    static unsigned helpers() { return helpers_.load(); }
    static void forked() { helpers_ = 0; }

   private:
    enum class Mode : std::uint8_t { watching, armed, resting };
    class Lending;

    static constexpr Duration kLinger = 50 * kMicrosecond;     // polling after a packet was served
    static constexpr Duration kHesitation = 5 * kMicrosecond;  // ... while others want the processor
    static constexpr unsigned kGlances = 7;  // between two polls, or looks of the helper's, in vain

    struct Yield {
        Duration away;
        bool helped;  // the helper ran meanwhile
    };
    void let_gathered_leave();  // the program is about to wait
    void show_activity(Time now);
    unsigned poll(Time now, Adapter::Caller caller = Adapter::Caller::waits);
    Yield yield() const;
    void pause(Patience& patience);
    void nap();
    void nap_on_link(Time end);

    // helper.cpp
    static void* run(void* engine);
    static std::atomic<unsigned> helpers_;
    void helper();
    void take_turn(Mode mode);
    void stand_by();
    bool polls_end();
    void stand_in();
    bool serve();
    bool hand_over();
    bool look_in_turn(bool glance, unsigned& done);
    void look_at_share(Time now);
    bool take_orders(bool watches);
    void look_at_watched();
    void look_around_if_due();
    bool lost_files();
    void kicked();

    static bool ask_whether_blocks(Awaited& awaited);

    // Changes the mode if it is `from`, and wakes the helper so that it notices.
    void change(Mode from, Mode to);
    void kick();

    // Sleepers: the helper while armed, a thread in wait_readable(). Each looks at the answered time at the
    // latest; the timer is for deadlines that others set meanwhile.
    Time enter_sleep();
    void leave_sleep();
    void lower_timer(Time deadline);
    void timer_fired();

    Adapter& adapter_;
    link::Link& link_;
    const std::atomic<Time>& gathers_until_;  // the adapter's
    const bool inline_progress_;
    const bool bound_;  // to one processor, at first

    std::mutex start_lock_;
    std::atomic<bool> started_{false};
    std::atomic<bool> stop_{false};
    enum class Farewell : std::uint8_t { none, wanted, said };
    std::atomic<Farewell> farewell_{Farewell::none};
    pthread_t thread_{};
    int kick_fd_ = -1;  // eventfd
    Nappers nappers_;
    int nap_fd_ = -1;        // eventfd: the helper tells who naps on the link that it took what woke both
    Alarm timer_;            // ends the sleep at the earliest deadline
    Alarm gathering_timer_;  // for the helper that nobody needs otherwise
    Watchdog watchdog_;      // tells it when nobody polls any more
    int lifeline_ = -1;      // what watch() was given
    FileIdentity lifeline_file_;
    int watched_fd_ = -1;  // the same, until `ready` answers false
    std::function<bool()> ready_;
    std::function<void()> lost_;
    const FilesAge files_;

    std::atomic<Mode> mode_{Mode::armed};
    std::atomic<std::uint64_t> watched_rounds_{0};  // Adapter::long_rounds(), at the last activity
    std::atomic<unsigned> helper_turns_{0};
    // Otherwise the helper looks at what gathers before it sleeps again, here or in enter_sleep().
    std::atomic<bool> asleep_{false};
    std::atomic<Duration> posting_{0};  // since posted() has polled
    static constexpr unsigned kManyPolls = 16;
    std::atomic<unsigned> polls_{kManyPolls};  // since the last arm(), up to so many
    PollStreak streak_;                        // while armed
    bool left_alone_ = false;                  // the helper's own: by all who polled, just now
    std::atomic<Time> served_at_{0};           // by a thread in wait_readable()
    // Polling on after packets were served, for who sleeps otherwise: an answer often follows. Where others
    // want the processor it does not pay, and the yield that finds that out takes their share of some
    // milliseconds, during which nothing is served.
    Trial lingering_;
    std::function<void(Time)> look_around_;
    Duration look_around_every_ = 0;
    Time look_around_at_ = kNever;      // ... the helper
    Trial hesitating_;                  // the helper's: for longer than a moment although others want it
    Trial handing_over_;                // the helper's: yielding to whom it has woken
    unsigned handed_over_ = 0;          // ... times in a row
    ProcessorShare share_;              // the helper's
    std::atomic<bool> lending_{false};  // a thread is in wait_readable()
    std::atomic<bool> lends_{false};    // the program sleeps in wait_readable(), so arm() need not hurry

    static constexpr Time kNobody = INT64_MIN;
    std::mutex timer_lock_;
    unsigned sleepers_ = 0;
    std::atomic<Time> sleeping_until_{kNobody};
};

}  // namespace verbena::adapter
