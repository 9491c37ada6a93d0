// The adapter of one process: its queue pairs, regions and completion queues, and the walk of packets between
// them and the link. Portable and without threads or clock of its own: the engine (engine.h) drives it in a
// program, the simulator drives it in tests.
//
// A packet's walk:  link->receive -> datagram() -> wire::parse, wire::icrc_verify -> find the queue pair by
// the BTH's destination QPN -> QueuePair::receive -> completion or memory -> QueuePair::transmit ->
// link->send -> link->flush.
//
// Thread safety: all calls unless said otherwise. Each queue pair has a lock; nothing is shared between two
// of them but the completion queues they name. Listeners (QpListener, CompletionListener) are called with the
// queue pair's lock held and must not call the adapter. Lock order: progress, then a queue pair's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/time.h"
#include "completion/moderation.h"
#include "link/link.h"
#include "memory/regions.h"
#include "transport/queue_pair.h"

namespace verbena::link {
class LocalLink;
}

namespace verbena::adapter {

// The process's exported tables (a memfd in a program, the heap in the simulator); the local link and the
// tools read them. Sizes are fixed at creation; memory is only touched as far as it is used.
class Segment;

inline constexpr Duration kNumberQuarantine = 5 * kSecond;
inline constexpr std::uint32_t kMaxGroups = 256;         // multicast groups of a process
inline constexpr std::uint32_t kMaxGroupMembers = 1024;  // queue pairs in one group

class Adapter {
   public:
    // `first_qp_number`..+`qp_numbers`-1 is what this adapter may hand out. More blocks may be added later.
    struct Setup {
        link::Link* link = nullptr;
        Segment* segment = nullptr;
        std::uint32_t first_qp_number = 0;
        std::uint32_t qp_numbers = 0;
        std::uint32_t random_seed = 0;
        bool gathers = true;                        // requests may wait for others (gathering.cpp)
        transport::DirectAccess* direct = nullptr;  // one-sided operations to peers of this host; may be null
        memory::Outsiders* outsiders = nullptr;  // those peers, as far as they do the same to us; may be null
        link::LocalLink* local = nullptr;        // `link`, if it is one: short messages leave by it (short.h)
        // The device of this host with that address (kNoDevice: none), for the totals of ports; may be null.
        std::uint32_t (*device_of)(const Gid& address) = nullptr;
    };
    explicit Adapter(const Setup& setup);
    ~Adapter();

    memory::RegionTable& regions();

    // More queue pair numbers, for which nothing is allocated any more once there is room for them (else
    // std::bad_alloc); and whether there are any.
    void make_room_for_numbers(std::uint32_t first, std::uint32_t count);
    void add_numbers(std::uint32_t first, std::uint32_t count);
    bool has_numbers(Time now);

    // The number is chosen at random by the adapter, and not used again for kNumberQuarantine after the
    // destruction if packets may still be on their way to it. nullptr with errno and a reason: ENOMEM,
    // EOPNOTSUPP.
    transport::QueuePair* create_qp(const transport::QpSetup& setup, Time now);
    // No completion or event of it appears after the return. Acknowledgements that it owed leave first.
    void destroy_qp(transport::QueuePair* qp, Time now);

    // QueuePair::attach() under the queue pair's lock; peers of this host learn what they must send as
    // packets.
    int attach(transport::QueuePair& qp, const std::shared_ptr<transport::CompletionCounter>& counter,
               std::uint32_t operations);

    // The transport's calls under the queue pair's lock; what became ready to leave is sent before the
    // return. Before a change to the error or reset state everything that has arrived is processed, and every
    // acknowledgement owed leaves: what both sides have done already does not end as flushed or unanswered.
    int modify(transport::QueuePair& qp, const transport::Attributes& attributes, std::uint32_t mask,
               Time now);
    void query(transport::QueuePair& qp, transport::Attributes& attributes);
    // One request that leaves, or is executed, at once, towards a peer of this host (straight.cpp), or waits
    // behind others (gathering.cpp). False: nothing was done; post_send() does it or says why not. Both get
    // the queue pair's number, since it itself may be cold.
    bool post_straight(std::uint32_t number, const transport::SendRequest& request, const LazyTime& now);
    // The same of one that is short, to a peer of this host (short.h, which must be included).
    bool post_short(std::uint32_t number, const transport::SendRequest& request, const LazyTime& now);
    // Posts in order; stops at the first that fails and says which (index == requests.size() if none).
    // `may_go_straight`: post_straight() has not been tried. `list_goes_on`: these belong to the same list as
    // those before.
    int post_send(std::uint32_t number, std::span<const transport::SendRequest> requests, std::size_t& index,
                  Time now, bool may_go_straight = true, bool list_goes_on = false);
    // Posts all of them or, with an error, none.
    int post_send_together(transport::QueuePair& qp, std::span<const transport::SendRequest> requests,
                           Time now);
    // One, to a queue pair's own queue (short.h, likewise). False: nothing was done; post_receive() has a
    // reason, perhaps.
    bool post_short(transport::ReceiveQueue& queue, std::uint32_t qp_number,
                    const transport::ReceiveRequest& request, const LazyTime& now);
    int post_receive(transport::QueuePair& qp, std::span<const transport::ReceiveRequest> requests,
                     std::size_t& index, LazyTime now);

    // Shared receive queues. A number for a new one (0: none is left), by which XRC requests name it.
    std::uint32_t add_shared_queue(std::shared_ptr<transport::ReceiveQueue> queue);
    // The queue is closed first: nothing is taken from it or reported after the return.
    void remove_shared_queue(std::uint32_t number);
    // As post_receive. Queue pairs that wait for a request go on at once.
    int post_shared_receive(transport::ReceiveQueue& queue,
                            std::span<const transport::ReceiveRequest> requests, std::size_t& index,
                            LazyTime now);

    // The queue pair receives what is sent to the multicast group by that interface (IBA 10.5), or does so no
    // longer. The process joins with the first queue pair and leaves with the last. 0 or errno with a reason;
    // ENOMEM: more than kMaxGroups. One attachment of a queue pair counts once.
    int attach(transport::QueuePair& qp, const Gid& group, std::uint32_t interface_index);
    int detach(transport::QueuePair& qp, const Gid& group, std::uint32_t interface_index);

    // Receives what waits, lets every touched queue pair answer. `idle`: the caller found nothing to do
    // before, so acknowledgements that were held back leave now. Timers that are due run. Returns the number
    // of datagrams and timers. One thread at a time gets in; others return 0 at once.
    // Requests that wait for others (gathering.cpp) leave if the caller waits for something; if he stands in
    // for the program, or goes on posting, when their time has come.
    enum class Caller : std::uint8_t { waits, stands_in, posts };
    unsigned progress(Time now, bool idle, Caller caller = Caller::waits);

    // As progress() for the helper. If another thread is inside it waits for its turn, asleep: looking again
    // at once, it might keep the other, on the same processor, from getting through. An acknowledgement that
    // will probably leave with the program's next request waits for that.
    unsigned progress_in_turn(LazyTime now);

    // As progress() of an idle caller, unless a look that costs much less says that it would surely find no
    // datagram, or it is not to be entered now: then false, though requests that gathered have left. The
    // clock is read only if something waits. `in_turn`: for the helper, as above, but that it waits for
    // nobody.
    bool glance(LazyTime now, unsigned& done, bool in_turn = false);

    // The same, but waits for its turn: what had arrived before the call has been processed on return.
    void settle(Time now);

    // When the first request that waits for others will have waited for long enough, or kNever; and what the
    // helper does then. And how long a post took that did not go straight.
    const std::atomic<Time>& gathers_until() const;
    void look_at_gathered(Time now);
    void post_took(Duration time);
    // Changes, now and then, while a call transmits much, and only then. Any thread.
    std::uint64_t long_rounds() const;

    // For the program's end: may acknowledgements be owed (perhaps by who is inside just now), or
    // requests wait? Then they leave. owes() waits for nobody.
    bool owes() const;
    void push_all_acknowledgements(Time now);

    // For peers: whether who stands in for the program has to share its processor with others. Any thread.
    void set_crowded(bool crowded);
    std::atomic<std::uint32_t>& presence();  // the word of the process's tables (presence.h)

    // The earliest timer, perhaps earlier than need be. progress() looks at them itself when they are due.
    Time next_deadline() const;

    // Of the completion queues that are moderated (CompletionQueue::moderate).
    completion::EventDeadlines& event_deadlines();

    // From now on completions have the time at which they are made; before, some have one that is up to some
    // microseconds earlier, or as long as the thread that made them was kept from running.
    void tell_time();

    // Whether the peer has not acknowledged all that was posted to `qp`, as far as it leaves by itself.
    bool awaits_acknowledgement(const transport::QueuePair& qp);
    // Likewise under its lock.
    transport::Standing standing(const transport::QueuePair& qp);
    transport::QpCounters counters(const transport::QueuePair& qp);

    // Every acknowledgement owed by `qp` leaves (before a disconnect request overtakes it).
    void push_acknowledgements(transport::QueuePair& qp, Time now);

    Segment& segment();

   private:
    class State;
    std::unique_ptr<State> state_;
};

}  // namespace verbena::adapter
