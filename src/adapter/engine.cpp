#include "adapter/engine.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "adapter/capture.h"
#include "adapter/clock.h"
#include "adapter/waiting.h"
#include "base/features.h"
#include "base/no_cancellation.h"
#include "base/no_signals.h"
#include "base/own_file.h"
#include "base/quick_thread_local.h"
#include "base/reason.h"
#include "base/signal_event.h"
#include "base/stay_loaded.h"

namespace verbena::adapter {
namespace {

constexpr unsigned kLookAside = 8;  // polls of the link to one of the descriptors and of others' needs
constexpr Duration kPosting = 200 * kMicrosecond;  // between two looks, while the program does nothing else
constexpr std::size_t kHelperStack = 256 << 10;

// Of the calling thread.
struct Poller {
    Patience patience;
    unsigned glances = 0;      // polls left that only look whether there is a packet
    bool bound_known = false;  // `patience` is that of a bound thread, or not
};
VERBENA_QUICK_THREAD_LOCAL constinit Poller poller;

bool bound_to_one_processor() {
    cpu_set_t processors;
    return sched_getaffinity(0, sizeof processors, &processors) == 0 && CPU_COUNT(&processors) == 1;
}

}  // namespace

Engine::Engine(Adapter& adapter, link::Link& link)
    : adapter_(adapter),
      link_(link),
      gathers_until_(adapter.gathers_until()),
      inline_progress_(features().inline_progress),
      bound_(bound_to_one_processor()) {}

Engine::~Engine() {
    if (started_.load()) {
        stop_.store(true);
        kick();
        pthread_join(thread_, nullptr);
    }
    for (const int fd : {kick_fd_, nap_fd_})
        if (fd >= 0) close(fd);
}

void Engine::watch(int fd, std::function<bool()> ready, std::function<void()> lost) {
    lifeline_ = watched_fd_ = fd;
    lifeline_file_ = FileIdentity::of(fd);
    ready_ = std::move(ready);
    lost_ = std::move(lost);
}

void Engine::look_around(Duration every, std::function<void(Time)> look) {
    look_around_ = std::move(look);
    look_around_every_ = every;
    look_around_at_ = now() + every;
}

int Engine::start() {
    if (started_.load()) return 0;
    stay_loaded([] {});  // by the loader's lock, which somebody may hold who waits for ours
    std::lock_guard guard(start_lock_);
    if (started_.load()) return 0;
    start_capture_if_asked(program_invocation_short_name);
    if (kick_fd_ < 0) kick_fd_ = out_of_the_way(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (nap_fd_ < 0) nap_fd_ = out_of_the_way(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (kick_fd_ < 0 || nap_fd_ < 0 || !timer_.open() || !gathering_timer_.open() || !watchdog_.open())
        return fail(errno, "no descriptor for the helper thread: %s", std::strerror(errno));
    make_room_out_of_the_way();

    const NoSignals none;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kHelperStack);
    const int error = pthread_create(&thread_, &attributes, run, this);
    pthread_attr_destroy(&attributes);
    if (error) return fail(error, "starting the helper thread: %s", std::strerror(error));
    pthread_setname_np(thread_, "verbena");
    started_.store(true);
    return 0;
}

void Engine::kick() {
    if (files_.is_of_now()) signal_event(kick_fd_);
}

void Engine::farewell() {
    constexpr Duration kPatience = 10 * kMillisecond;
    if (!started_.load() || !adapter_.owes()) return;
    farewell_.store(Farewell::wanted);
    kick();
    for (const Time end = now() + kPatience; farewell_.load() != Farewell::said && now() < end;)
        sched_yield();  // which, unlike a sleep, is no cancellation point
}

void Engine::change(Mode from, Mode to) {
    if (mode_.compare_exchange_strong(from, to) && started_.load()) kick();
}

// The helper need not look.
[[gnu::always_inline]] inline void Engine::show_activity(Time now) {
    if (mode_.load(std::memory_order_relaxed) != Mode::watching || !watchdog_.feed(now)) [[likely]]
        return;
    watched_rounds_.store(adapter_.long_rounds(), std::memory_order_relaxed);
    link_.still_polled();
}

[[gnu::always_inline]] inline unsigned Engine::poll(Time now, Adapter::Caller caller) {
    if (const unsigned polls = polls_.load(std::memory_order_relaxed); polls < kManyPolls)
        polls_.store(polls + 1, std::memory_order_relaxed);
    if (mode_.load(std::memory_order_relaxed) == Mode::armed && streak_.poll(now)) {
        watchdog_.polls_begin();
        change(Mode::armed, Mode::watching);
    }
    show_activity(now);
    return progress(now, caller);
}

void Engine::poll_found() { poller.patience.found(); }

bool Engine::poll_progress() {
    auto& [patience, glances, bound_known] = poller;
    unsigned done = 0;
    // A glance looks at neither clock nor timers, so that a packet is found sooner.
    const bool glance = glances > 0;
    if (glance) {
        glances--;
        if (!adapter_.glance(now, done)) return false;
        posted();
    }
    if (!bound_known) [[unlikely]]
        poller = {Patience(bound_), 0, true};
    if (inline_progress_ && !glance)
        done = poll(now());
    else if (done == 0)  // or else the next is no glance
        show_activity(now());
    const bool polls = inline_progress_ && !patience.yields_at_once() &&
                       mode_.load(std::memory_order_relaxed) == Mode::watching;
    glances = done == 0 && polls ? kGlances : 0;
    if (done == 0)
        pause(patience);
    else
        patience.found();
    return done > 0;
}

void Engine::posted(Time since) {
    posted();
    const Time time = now();
    adapter_.post_took(time - since);
    const Duration posting = posting_.load(std::memory_order_relaxed) + (time - since);
    const bool looks = posting >= kPosting && inline_progress_;
    posting_.store(looks ? 0 : posting, std::memory_order_relaxed);
    if (!looks) return;
    if (polls_.load(std::memory_order_relaxed) < kManyPolls) {
        progress(time, Adapter::Caller::posts);
        return;
    }
    streak_.posted(time - posting, time);
    poll(time, Adapter::Caller::posts);
}

Engine::Yield Engine::yield() const {
    const unsigned turns = helper_turns_.load(std::memory_order_relaxed);
    const Duration away = yield_to_others();
    return {away, helper_turns_.load(std::memory_order_relaxed) != turns};
}

void Engine::pause(Patience& patience) {
    switch (patience.in_vain()) {
        case Patience::Next::poll:
            return;
        case Patience::Next::yield: {
            const auto [away, helped] = yield();
            if (inline_progress_) patience.yielded(away, helped, now());
            return;
        }
        case Patience::Next::nap:
            return nap();
    }
}

void Engine::nap() {
    const NoCancellation whole;
    const Nappers::Nap nap = nappers_.begins();
    const Time before = now();
    const Time end = before + nap.length;
    if (nap.on_link)
        nap_on_link(end);
    else
        poll_until(nullptr, 0, end);
    nappers_.ends();
    if (files_.is_of_now()) streak_.napped(before, now());
}

void Engine::nap_on_link(Time end) {
    pollfd waiting[2] = {{link_.wait_fd(), POLLIN, 0}, {nap_fd_, POLLIN, 0}};
    link_.enter_sleep();
    poll_until(waiting, 2, std::min(adapter_.next_deadline(), end));
    if (!files_.is_of_now()) return;
    link_.leave_sleep();
    if (waiting[1].revents) take_events(nap_fd_);
}

void Engine::arm() {
    poller.patience.will_sleep();
    streak_.end();
    polls_.store(0, std::memory_order_relaxed);
    if (!lends_.load(std::memory_order_relaxed)) change(Mode::watching, Mode::armed);
    let_gathered_leave();
}

void Engine::let_gathered_leave() {
    if (inline_progress_ && gathers_until_.load(std::memory_order_relaxed) != kNever) progress(now());
}

// Who drives is not always the next to sleep: a poller goes away, the helper leaves the link to a thread that
// sleeps already. So whoever sleeps is told of the timers that were set here, as after a post.
unsigned Engine::progress(Time now, Adapter::Caller caller) {
    const unsigned done = adapter_.progress(now, true, caller);
    posted();
    return done;
}

// Sleeping. enter_sleep() publishes until when, and then looks at the deadlines again; posted() changes a
// deadline, and then looks whether somebody sleeps too long. All sequentially consistent, so that one of them
// sees the other.

Time Engine::enter_sleep() {
    const Time deadline = adapter_.next_deadline();
    {
        std::lock_guard guard(timer_lock_);
        const Time others = sleepers_++ == 0 ? timer_.set() : sleeping_until_.load();
        sleeping_until_.store(std::min(others, deadline));
    }
    posted();
    link_.enter_sleep();
    return deadline;
}

// Until when the others sleep is not known, but for the timer.
void Engine::leave_sleep() {
    if (!files_.is_of_now()) return;
    link_.leave_sleep();
    {
        std::lock_guard guard(timer_lock_);
        if (--sleepers_ == 0) return sleeping_until_.store(kNobody);
        sleeping_until_.store(timer_.set());
    }
    posted();
}

void Engine::lower_timer(Time deadline) {
    if (!files_.is_of_now()) return;
    std::lock_guard guard(timer_lock_);
    if (timer_.ring_by(deadline) && sleepers_ > 0) sleeping_until_.store(deadline);
}

void Engine::timer_fired() {
    std::lock_guard guard(timer_lock_);
    if (timer_.take() && sleepers_ > 0) sleeping_until_.store(kNever);
}

bool Engine::ask_whether_blocks(Awaited& awaited) {
    const int flags = fcntl(awaited.fd, F_GETFL);
    const bool blocks = flags >= 0 && !(flags & O_NONBLOCK);
    awaited.blocks.store(blocks, std::memory_order_relaxed);
    return blocks;
}

// A thread of the program that blocks in wait_readable(). The destructor also runs when the thread is
// cancelled there.
class Engine::Lending {
   public:
    explicit Lending(Engine& engine) : engine_(engine) {
        engine_.lends_.store(true, std::memory_order_relaxed);
        engine_.change(Mode::armed, Mode::resting);
    }
    ~Lending() {
        if (sleeping_) engine_.leave_sleep();
        engine_.lending_.store(false);
        engine_.change(Mode::resting, Mode::watching);
        engine_.posted();  // requests that wait for others are the helper's again
    }
    Lending(const Lending&) = delete;
    Lending& operator=(const Lending&) = delete;

    Time enter_sleep() {
        const Time until = engine_.enter_sleep();
        sleeping_ = true;
        return until;
    }
    void leave_sleep() {
        sleeping_ = false;
        engine_.leave_sleep();
    }

   private:
    Engine& engine_;
    bool sleeping_ = false;
};

Engine::Wait Engine::wait_readable(Awaited& awaited, Time deadline) {
    if (!awaited.blocks.load(std::memory_order_relaxed) && !ask_whether_blocks(awaited)) {
        if (inline_progress_) progress(now());
        return Wait::readable;
    }
    if (!started_.load() || !inline_progress_ || lending_.exchange(true)) {
        let_gathered_leave();
        // What this thread has queued for itself by that, it does not tell the descriptor.
        const bool come = awaited.events.load(std::memory_order_relaxed) > 0;
        return !come && ask_whether_blocks(awaited) ? wait_alone(awaited.fd, deadline) : Wait::readable;
    }

    Lending lending(*this);
    // The packet of the wait before this one counts: its answer is what the program now waits for.
    Time last = served_at_.load(std::memory_order_relaxed);
    bool asked = false, fresh = true, lingers = false;  // fresh: nothing was served since the last sleep
    // However much comes that is no event of this descriptor's, the kernel is asked about it now and then.
    Time kernel_asked = now();
    for (unsigned round = 1;; round++) {
        const Time time = now();
        if (!files_.is_of_now()) return Wait::readable;
        show_activity(time);
        // Others of the program may go on posting while this one waits.
        const bool served =
            progress(time, round == 1 ? Adapter::Caller::waits : Adapter::Caller::stands_in) > 0;
        if (served) served_at_.store(last = time, std::memory_order_relaxed);
        if (awaited.events.load(std::memory_order_relaxed) > 0) return Wait::readable;
        if (fresh && time - last <= kLinger) {
            lingers = lingering_.pays();
            fresh = false;
        }
        const bool linger = time - last <= (lingers ? kLinger : kHesitation);
        const bool due = time - kernel_asked > kLinger, asks = due || !awaited.counted;
        if (linger && !(served && asks) && round % kLookAside != 0) continue;

        pollfd fds[3] = {{awaited.fd, POLLIN, 0}, {link_.wait_fd(), POLLIN, 0}, {timer_.fd(), POLLIN, 0}};
        int ready = 0;
        if ((!linger || due) && !ask_whether_blocks(awaited)) return Wait::readable;
        if (linger) {
            if (asks) ready = poll_until(fds, 3, 0);
        } else {
            if (std::exchange(asked, false)) lingering_.paid();
            const Time look = lending.enter_sleep();
            ready = poll_until(fds, 3, std::min(look, deadline));
            lending.leave_sleep();
            fresh = true;
            lingers = false;
        }
        if (!linger || due) kernel_asked = now();
        if (ready < 0 && errno == EINTR && !every_handler_restarts()) return Wait::interrupted;
        if (ready > 0 && fds[0].revents) return Wait::readable;
        if (ready > 0 && fds[2].revents) timer_fired();
        if (deadline != kNever && now() >= deadline) return Wait::timed_out;
        if (!linger || served || !lingers) continue;
        if (const auto [away, helped] = yield(); Patience::others_ran(away, helped)) {
            lingering_.in_vain();
            asked = lingers = false;
            served_at_.store(last = 0, std::memory_order_relaxed);
        } else {
            asked = true;
        }
    }
}

// Somebody else drives the adapter, or nobody needs to.
Engine::Wait Engine::wait_alone(int fd, Time deadline) {
    for (;;) {
        pollfd waiting{fd, POLLIN, 0};
        const int ready = poll_until(&waiting, 1, deadline);
        if (ready > 0) return Wait::readable;
        if (ready == 0) return Wait::timed_out;
        if (errno == EINTR && !every_handler_restarts()) return Wait::interrupted;
    }
}

}  // namespace verbena::adapter
