// Who moves the packets: mostly the program's own threads, while they post and poll; when they do not, one
// helper thread that otherwise sleeps.
//
//     ticking   somebody polls. The helper looks once a millisecond whether that is still so, and nothing
//     else. armed     nobody polls. The helper sleeps on the link's descriptor and the next timer. resting a
//     thread of the program is blocked in wait_readable() and does the helper's work itself.
//
// ticking -> armed (or resting) when a tick saw no poll, or at once by arm(). armed -> ticking when polls
// come in quick succession. After serving a packet, whoever sleeps first polls for 50 us, yielding: an answer
// often follows. Nothing wakes up while nothing happens; a thread that would have to wait for the helper
// never does.
//
// What this gives up: a program that stops polling waits up to two ticks (2 ms) for the helper.
//
// Thread safety: all calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "adapter/adapter.h"
#include "base/time.h"
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

    // Makes the helper, all signals blocked in it; later calls do nothing. With the first queue pair. 0, or
    // errno with a reason.
    int start();

    // The caller found its completion queue empty. True if packets were handled or timers ran, so that
    // looking again may pay. Yields the processor now and then when called in vain again and again.
    bool poll_progress();

    // ibv_req_notify_cq: the caller will soon sleep on something that it does not tell us (a channel in
    // poll()).
    void arm();

    // After a post or a modify: whoever sleeps gets to know of an earlier timer.
    void posted();

    enum class Wait { readable, timed_out, interrupted };
    // Blocks until `fd` is readable, and drives the adapter meanwhile. A descriptor that is O_NONBLOCK is not
    // waited for. `interrupted`: a signal came, and its handler does not ask for calls to be restarted
    // (SA_RESTART).
    Wait wait_readable(int fd, Time deadline = kNever);

   private:
    enum class Mode : std::uint8_t { ticking, armed, resting };

    static void* run(void* engine);
    void helper();
    void helper_tick();
    void helper_armed();
    void helper_resting();
    void sleep_until_something(int fd, Time deadline);
    bool serve();  // progress, then polling for a while; true if anything was done
    void kick();   // the helper looks at its orders anew
    void take_kick();
    void request(Mode mode);

    // The timer that ends a sleep: set to the earliest deadline, lowered by posted().
    void set_timer(Time deadline);

    Adapter& adapter_;
    link::Link& link_;

    std::mutex start_lock_;
    std::atomic<bool> started_{false};
    std::atomic<bool> stop_{false};
    unsigned long thread_ = 0;  // pthread_t
    int kick_fd_ = -1;
    int timer_fd_ = -1;

    std::atomic<Mode> mode_{Mode::armed};     // what the helper is in, or will be after the kick it was given
    std::atomic<std::uint64_t> activity_{0};  // polls and the like, so that a tick can see them
    std::atomic<Time> last_poll_{0};
    std::atomic<unsigned> poll_streak_{0};  // polls close to each other while armed
    std::atomic<bool> lending_{false};      // a thread is in wait_readable()
    std::atomic<bool> lends_{false};        // the program sleeps in wait_readable(), so arm() need not hurry

    std::mutex timer_lock_;
    std::atomic<Time> sleeper_until_{INT64_MIN};  // INT64_MIN: nobody sleeps on the timer
    std::atomic<unsigned> sleepers_{0};
    unsigned yield_after_ = 200;  // empty polls
};

}  // namespace verbena::adapter
