// What an Adapter consists of. adapter.cpp has the calls from above (modify, post), queue_pairs.cpp the
// making and ending of queue pairs, progress.cpp the walk of packets and timers, outgoing.cpp what leaves.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "adapter/adapter.h"
#include "adapter/groups.h"
#include "adapter/outgoing.h"
#include "adapter/qp_table.h"
#include "adapter/segment.h"
#include "adapter/srq_table.h"
#include "adapter/timers.h"
#include "base/free_list.h"
#include "base/own_file.h"
#include "base/thread_number.h"
#include "completion/moderation.h"
#include "link/local_link.h"

namespace verbena::adapter {

// A slot's lock, and a memory section with it. Whether the queue pair is there must be asked.
class LockedQp {
   public:
    LockedQp(Slot& slot, std::uint32_t number, memory::Sections& sections)
        : section_(sections, slot.lock), slot_(slot), there_(slot.number == number && slot.qp) {}
    ~LockedQp() { slot_.lock.unlock(); }
    LockedQp(const LockedQp&) = delete;
    LockedQp& operator=(const LockedQp&) = delete;

    explicit operator bool() const { return there_; }
    Slot& slot() { return slot_; }
    transport::QueuePair& qp() { return *slot_.qp; }

   private:
    const memory::Section section_;
    Slot& slot_;
    const bool there_;
};

inline void count(std::atomic<std::uint64_t>& counter, std::uint64_t n = 1) {
    // Only the thread in run() writes.
    counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

using CrowdedFlow = std::shared_ptr<transport::Flow>;

class Adapter::State final : public link::Receiver {
   public:
    explicit State(const Setup& setup);

    // queue_pairs.cpp
    transport::QueuePair* create_qp(const transport::QpSetup& setup, Time now);
    void destroy_qp(transport::QueuePair& qp, Time now);
    [[gnu::always_inline]] LockedQp lock(std::uint32_t number) {
        return {table.slot_of(number), number, segment.sections()};
    }
    // Among many queue pairs, one that is about to be worked on is cold.
    bool many() const { return queue_pairs_.load(std::memory_order_relaxed) >= kMany; }
    void comes_to(std::uint32_t number) {  // a thread that posts
        table.comes_to(number, orders_[number_of_this_thread() % kThreads].order);
    }
    void show_state(Slot& slot);  // to who posts receives and, with the peer, to the exported record
    void describe(Slot& slot);    // the latter
    // No peer of this host is at work any more on what it found in the record before, unless it was stopped
    // at that: the memory is taken away by its regions' end, which waits longer. No lock held.
    void wait_for_outsiders(std::uint32_t number) const {
        constexpr Duration kMost = 2 * kSecond;
        if (outsiders_) outsiders_->wait_for_them({.qp = number}, kMost);
    }

    // transmit() publishes the state and then flushes, under the lock of the receive queue in the end; so
    // either it finds these requests or we see the state.
    void receives_posted(std::uint32_t number, const transport::ReceiveQueue& queue, const LazyTime& now) {
        if (queue.takes() == transport::ReceiveQueue::Takes::to_flush) [[unlikely]]
            work_on(number, now.get(), [](Slot& found) { found.qp->receives_posted(); });
    }

    // outgoing.cpp
    Outgoing& take_outgoing();
    void leave(Outgoing& out);
    bool is_aboard(Slot& slot) { return slot.out && is_still_aboard(slot); }
    bool is_still_aboard(Slot& slot);
    // Whether what this thread has posted lately waits for more.
    bool gathers_here() const {
        return gathers_until.load(std::memory_order_relaxed) != kNever &&
               outgoings_[number_of_this_thread() % kOutgoings].until.load(std::memory_order_relaxed) !=
                   kNever;
    }
    void let_leave(Slot& slot);  // needs the slot's lock

    // While packets of a queue pair, whose lock is held, are put into an Outgoing: that is locked, and
    // nothing of the queue pair's waits in another one.
    class Boarding {
       public:
        Boarding(State& state, Slot& slot);  // the thread's own
        Boarding(State& state, Slot& slot, Outgoing& out);
        ~Boarding() {
            if (leaves_) state_.leave(*out_);
            out_->lock.unlock();
        }
        Boarding(const Boarding&) = delete;
        Boarding& operator=(const Boarding&) = delete;

        Outgoing& out() { return *out_; }
        wire::PacketSink& sink();
        void leave_at_end() { leaves_ = true; }

       private:
        std::uint8_t number() const {  // Slot::out
            return static_cast<std::uint8_t>(out_ - state_.outgoings_.data() + 1);
        }

        State& state_;
        Slot& slot_;
        Outgoing* out_;
        bool leaves_ = false;
    };

    // Needs the slot's lock and a section. What is put into `out` leaves with it, otherwise at once. Returns
    // the window that others wait for as well, if so: serve() it when the lock is released.
    [[nodiscard]] CrowdedFlow transmit(Slot& slot, Time now, bool push_acknowledgements,
                                       Outgoing* out = nullptr);
    [[nodiscard]] CrowdedFlow transmit(Slot& slot, Time now, bool push_acknowledgements, Boarding& boarding);
    void transmit_in_run(Slot& slot, Time now, bool push_acknowledgements);  // needs progress_lock
    void leave_together() {                                                  // needs progress_lock
        if (of_run_.held()) leave_in_run();
    }
    void leave_in_run();
    // Posts in order, stops at the first that fails and says which; what became ready leaves.
    int post(Slot& slot, Boarding& boarding, std::span<const transport::SendRequest> requests,
             std::size_t& index, bool list_goes_on, Time now, CrowdedFlow& crowded);
    // Lets those who wait send, in their order, while the window is open. No queue pair's lock is held.
    void serve(const CrowdedFlow& flow, Time now, Outgoing* out = nullptr);
    void serve_crowded(Time now);  // all that transmit() met; needs progress_lock
    // `work(slot)` under the queue pair's lock; then what became ready leaves. False: there is no such queue
    // pair.
    template <typename Work>
    bool work_on(std::uint32_t number, Time now, Work&& work, bool push_acknowledgements = false) {
        CrowdedFlow crowded;
        {
            LockedQp locked(table.slot_of(number), number, segment.sections());
            if (!locked) return false;
            work(locked.slot());
            crowded = transmit(locked.slot(), now, push_acknowledgements);
        }
        if (crowded) serve(crowded, now);
        return true;
    }
    // progress.cpp. Acknowledgements that were held back, when there is nothing else to do.
    enum class Owed : std::uint8_t { stays, leaves, may_wait };
    unsigned run(Time now, Owed owed, Caller caller);         // needs progress_lock
    unsigned look_closer(const LazyTime& now, bool in_turn);  // likewise
    bool looks_empty() const { return local && local->looks_empty(); }
    void push_owed(Time now, bool patient);  // needs progress_lock
    void push_due(Time now);                 // needs progress_lock
    bool owes() const {                      // needs progress_lock
        return !owing_.empty() || gathers_until.load() != kNever;
    }
    void datagram(const link::Datagram& datagram) override;

    // gathering.cpp: whether requests wait for others, before they are posted, and whether they still do
    // behind that. Both need the lock of `out`.
    bool may_gather(Outgoing& out, const transport::QueuePair& qp,
                    std::span<const transport::SendRequest> requests, bool list_goes_on, Time now);
    bool gather(Outgoing& out, transport::QueuePair& qp, std::size_t requests, Time now);
    bool post_behind(Slot& slot, const transport::SendRequest& request, Time now);
    // Those that wait leave; true if one had waited for long enough. No lock of these is held.
    enum class Gathered : std::uint8_t { all, due };
    bool push_gathered(Time now, Gathered which);
    void somebody_looks() {
        looks_.store(looks_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    void somebody_waits(Time now) {
        somebody_looks();
        if (gathers_until.load(std::memory_order_relaxed) != kNever) push_gathered(now, Gathered::all);
    }
    void gathered_in_time(Time now, bool adapts);
    void look_at_gathered(Time now);  // the helper
    void post_took(Duration time);

    // straight.cpp
    bool straight(const link::Datagram& datagram) override;
    bool is_early(const link::Datagram& datagram) override;
    std::size_t straight(std::span<const wire::InPacket> packets, const wire::Path& path) override;
    std::size_t take_together(Slot& slot, std::uint32_t number, std::span<const wire::InPacket> packets,
                              const wire::Path& path);
    bool goes_straight(Slot& slot, const link::Datagram& datagram);
    using Straight = transport::QueuePair::Straight;
    Straight take_straight(LockedQp& locked, wire::Opcode opcode, const link::Datagram& datagram);
    Straight execute_straight(transport::QueuePair& qp, wire::Opcode opcode, const link::Datagram& datagram);
    bool post_straight(Slot& slot, const transport::SendRequest& request, const LazyTime& now);
    void finish_later(Slot& slot, Straight follows);
    void finish(Slot& slot, Slot::Touched how);  // after a burst: what it made ready leaves
    // Needs the slot's lock, and progress_lock.
    void settle_owed(Slot& slot, Time now, wire::PacketCopier& copier);
    void come_again(Slot& slot, Time now);
    void go_on(Slot& slot, Straight follows);
    // After something straight: if the timer looks before the deadline anyway, fire() asks then.
    void keep_timer(Slot& slot, Straight follows) {
        if (follows & transport::QueuePair::kWaits) look_by(slot, slot.qp->other_deadline());
    }
    void look_by(Slot& slot, Time deadline) {
        if (!timers.looks_by(slot, deadline)) [[unlikely]]
            timers.set(slot, deadline);
    }

    // Nothing is waited for any more. Among many queue pairs, what the timer would soon look at in vain is
    // cold by then.
    void rest_timer(Slot& slot) {
        if (!slot.again && timers.looks_by(slot, now_ + kSoonInVain))
            timers.set(slot, slot.qp->other_deadline());
    }

    void burst(const link::Datagram& all, std::size_t size) override;

    link::Link& link;
    link::LocalLink* const local;  // the same, or nullptr
    Segment& segment;
    transport::DirectAccess* const direct;
    memory::RegionTable regions;
    Timers timers;
    completion::EventDeadlines event_deadlines;
    QpTable table;
    SrqTable shared_queues;
    transport::FlowTable flows;
    Groups groups;
    const FilesAge files;                       // the link's
    std::atomic<std::uint64_t> long_rounds{0};  // of transmit(), behind the first
    std::atomic<Time> gathers_until{kNever};    // the first to have waited for others for long enough
    std::atomic<bool> tells_time{false};        // programs ask when their completions were made
    Lock progress_lock;
    std::mutex table_lock;  // numbers, slots and records

   private:
    static constexpr unsigned kReceiveBudget = 256;    // datagrams, until they are answered
    static constexpr unsigned kReceiveRounds = 8;      // ... while there is much, per run()
    static constexpr unsigned kTransmitBudget = 128;   // packets, so that a flush comes in between
    static constexpr unsigned kTransmitRounds = 8;     // then the rest waits for the next run()
    static constexpr unsigned kTurns = 1024;           // of queue pairs in one serve()
    static constexpr std::uint64_t kBurstTrial = 512;  // packets
    // Queue pairs that owe an acknowledgement: so many are a good part of what a sender has outstanding.
    static constexpr std::size_t kOwedTogether = 24;
    static constexpr Duration kShortestWait = 50 * kMicrosecond,
                              kLongestWait = kMillisecond;  // gathering.cpp
    static constexpr std::uint32_t kMany = 64;  // queue pairs: what few consist of stays in a cache
    static constexpr Duration kSoonInVain = 4 * kMillisecond;

    std::uint64_t random();
    void make_room_for(std::uint32_t queue_pairs);
    transport::QueuePair* make_qp(transport::QpSetup setup, Time now);
    QpRecord* take_record(std::uint32_t number);
    void give_back_record(QpRecord& record);
    void retire(QpRecord& record);
    void count_error(const link::Datagram& datagram);
    bool is_whole(const link::Datagram& datagram, std::uint32_t& ip_id);
    bool is_good(const link::Datagram& datagram, std::uint32_t ip_id, wire::Packet& packet);
    void deliver(Slot* slot, std::uint32_t number, const link::Datagram& datagram,
                 const wire::Packet& packet);
    void to_group(const link::Datagram& datagram);
    void expect_behind(std::span<const std::uint8_t> packets, std::size_t size) const;
    void receive_alike(const link::Datagram& all, std::size_t place, std::size_t size, std::size_t packets);
    void take(Slot& slot, std::uint32_t number, const link::Datagram& datagram, std::uint32_t ip_id);
    bool receive_run(const wire::ReceivedRun& run, const link::Datagram& all, std::size_t place);
    // Its acknowledgement may wait, no longer than its deadline: one timer serves all who owe.
    void owe(Slot& slot) {
        if (!slot.owing) owing_.push_back(&slot);
        slot.owing = true;
        owed_anew_++;
        const Time soonest = now_ + transport::QueuePair::kSoonestDeadline;
        if (!timers.looks_by(owed_timer_, soonest)) [[unlikely]]
            timers.set(owed_timer_, soonest);
    }
    unsigned take_turn(Time now, Owed owed, Caller caller);
    bool take_alone(const LazyTime& now);
    template <class Turn>
    auto or_lost(Turn turn) -> decltype(turn());
    std::unique_lock<Lock> lock_owing(Slot& slot);
    // For what all of them owe, until link.end_row().
    wire::PacketCopier& copier_of_owed() { return owing_.size() > 1 ? link.row() : link; }
    void touch(Slot& slot, Slot::Touched how) {
        if (slot.touched == Slot::Touched::no) touched_.push_back(&slot);
        if (slot.touched < how) slot.touched = how;
    }
    void touch(Slot& slot) { touch(slot, Slot::Touched::yes); }
    void tell(Slot& slot) { touch(slot, Slot::Touched::told); }
    bool holds(const Slot& slot, std::uint32_t number) {
        return held_ && *held_ && &held_->slot() == &slot && slot.number == number;
    }
    // Among many, what a packet for it touches is fetched, unless one before it was for the same.
    void expect_unless_held(const Slot& slot, std::uint32_t number, wire::Opcode opcode) {
        if (many() && !holds(slot, number)) table.expect(number, opcode);
    }
    // The lock of the queue pair that the packets are for is kept from one packet to the next of a burst.
    void hold(Slot& slot, std::uint32_t number) {
        if (holds(slot, number)) return;
        held_.reset();
        held_.emplace(slot, number, segment.sections());
    }
    void wait_until(Outgoing& out, Time until);
    void adapt_gathering_wait(bool due);
    void finish_touched();
    bool fire(Slot& slot, Time now);
    static Time deadline_of(const Slot& slot);
    void watch_bursts(Slot& slot);
    void remember(CrowdedFlow flow);

    memory::Outsiders* const outsiders_;
    const bool gathers_;
    std::uint32_t (*const device_of_)(const Gid&);
    std::uint64_t random_state_;  // under table_lock
    FreeList<std::uint32_t> free_records_;
    std::uint32_t used_records_ = 0;
    std::atomic<std::uint32_t> queue_pairs_{0};  // with those that are being made
    std::atomic<std::uint32_t> room_{0};         // for so many; written under progress_lock
    Time latest_ = 0;                            // under table_lock

    // The orders in which threads come to the queue pairs that they post to.
    static constexpr unsigned kThreads = 8;
    struct alignas(64) OfThread {
        QpOrder order;
    };
    std::array<OfThread, kThreads> orders_;

    static constexpr unsigned kOutgoings = link::Link::kSinks - 1;  // of who posts
    std::array<Outgoing, kOutgoings + 1> outgoings_;
    static_assert(kOutgoings + 1 < 1 << 4);  // Slot::out
    Outgoing& of_run_ = outgoings_.back();   // of run(), filled under progress_lock
    Lock gathering_lock_;                    // behind an Outgoing's
    TimerNode gathering_timer_;              // under it
    std::atomic<Duration> gathering_wait_{kShortestWait};
    std::atomic<std::uint32_t> looks_{0};  // somebody_looks()
    std::atomic<Duration> call_time_{0};   // post_took()

    // Under progress_lock.
    Time now_ = 0;
    QpTable::Arrivals arrivals_;
    std::optional<LockedQp> held_;  // of the burst's current queue pair
    static constexpr std::size_t kAlike = 16;
    std::array<wire::InPacket, kAlike> alike_;  // of a burst
    std::vector<std::uint32_t> members_;        // of the group that a packet is for
    std::vector<Slot*> touched_;
    std::vector<Slot*> owing_;
    TimerNode owed_timer_;       // of the acknowledgements of these
    std::size_t owed_anew_ = 0;  // times, since push_owed()
    // The helper took what came last, and the program has not looked since: it may be about to answer.
    bool unseen_ = false;
    std::vector<CrowdedFlow> crowded_;
};

}  // namespace verbena::adapter
