// A queue pair as a state machine without I/O or clock: work requests and packets go in, packets and
// completions come out. The adapter feeds it: post_*() and receive() change its state, transmit() lets it
// send what it may, and advance() tells it the time when next_deadline() has come.
//
// Thread safety: none; the adapter holds the queue pair's lock around each call (post_receive excepted: a
// receive queue has its own), and a memory::Section around receive(), transmit() and post_send().
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/prefetch.h"
#include "base/time.h"
#include "completion/completion_queue.h"
#include "memory/regions.h"
#include "transport/attributes.h"
#include "transport/completion_counter.h"
#include "transport/counters.h"
#include "transport/direct_access.h"
#include "transport/flow.h"
#include "transport/receive_queue.h"
#include "transport/requests.h"
#include "transport/standing.h"
#include "wire/packet.h"
#include "wire/packet_sink.h"
#include "wire/run.h"
#include "wire/whole_atomic.h"

namespace verbena::transport {

class QueuePair;
class ShownReceives;

// enum ibv_event_type, as far as queue pairs raise them.
enum class QpEvent : std::uint8_t {
    fatal = 1,
    request_error = 2,
    access_error = 3,
    communication_established = 4,
    send_queue_drained = 5,
    last_wqe_reached = 16,
};

class QpListener {
   public:
    virtual ~QpListener() = default;
    virtual void qp_event(QueuePair& qp, QpEvent event) = 0;
};

// Where an XRC target finds the queue that a request names.
class XrcQueues {
   public:
    virtual ~XrcQueues() = default;
    virtual std::shared_ptr<ReceiveQueue> find(std::uint32_t number) = 0;
};

// What every message needs of it.
struct QpBasics {
    completion::CompletionQueue* send_cq = nullptr;
    completion::CompletionQueue* receive_cq = nullptr;
    memory::RegionTable* regions = nullptr;
    std::uint32_t number = 0;
    memory::PdNumber pd = 0;
    Service service = Service::rc;
    bool signal_all = false;  // sq_sig_all
    bool shared_receive_queue = false;
    bool block_own_multicast = false;  // UD: what it sends to a group does not come back to itself
    bool is_counted = false;           // there is `counted`
};

struct QpSetup : QpBasics {
    const CompletionCounters* counted = nullptr;  // attach()
    Capabilities capabilities;
    std::uint32_t port_mtu = 4096;  // bytes: the longest datagram that the port sends
    QpListener* listener = nullptr;
    std::shared_ptr<ReceiveQueue> receive_queue;  // its own or a shared one
    DirectAccess* direct = nullptr;               // nullptr: everything leaves as packets
    ShownReceives* shown = nullptr;               // to a peer that has direct access; nullptr: none are
    FlowTable* flows = nullptr;                   // of the process; nullptr: a window of the queue pair's own
    // Where to count, all zero; nullptr: in the queue pair itself.
    BusyCounters* busy_counters = nullptr;
    RareCounters* rare_counters = nullptr;
    XrcQueues* xrc_queues = nullptr;  // XRC targets
    std::uint32_t xrc_domain = 0;
    // For tools only: the device's index, and the numbers by which they know the completion queues.
    std::uint32_t device = 0, send_cq_number = 0, receive_cq_number = 0;

    // nullptr: it has none, or a shared one.
    ReceiveQueue* own_receives() const {
        return receive_queue && !receive_queue->shared() ? receive_queue.get() : nullptr;
    }
};

class QueuePair {
   public:
    static std::unique_ptr<QueuePair> create(const QpSetup& setup);  // nullptr: service not supported
    virtual ~QueuePair() = default;

    // No deadline of an acknowledgement that is owed from now on is nearer.
    static constexpr Duration kSoonestDeadline = 100 * kMicrosecond;

    // What a message, or its acknowledgement, touches of a connected queue pair (rc_queue_pair.h) on either
    // side, a bit for each cache line. Both: a message with the acknowledgement of another.
    enum class Side : std::uint8_t { requester, responder, both };
    static constexpr std::uint32_t kRequesterLines = 0b0111'1111;
    static constexpr std::uint32_t kResponderLines = 0b1100'0011;
    // That, into the cache. Any thread, at any time, before and after its life.
    static void prefetch(const QueuePair* qp, Side side) {
        if (side == Side::requester)
            fetch_lines<kRequesterLines>(qp);
        else if (side == Side::responder)
            fetch_lines<kResponderLines>(qp);
        else
            fetch_lines<kRequesterLines | kResponderLines>(qp);
    }
    // And what it touches outside of it, which stays the same until it is reset. nullptr: nothing, or nobody
    // knows what.
    struct Outside {
        const void *counters = nullptr, *sends = nullptr, *receive_queue = nullptr, *receives = nullptr;
    };
    virtual Outside outside() const { return {}; }

    // IBA 11.2.5.3: EINVAL with a reason for a transition or mask that the specification forbids.
    virtual int modify(const Attributes& attributes, std::uint32_t mask, Time now) = 0;
    virtual void query(Attributes& attributes) const = 0;

    // From now on `counter` counts those operations (bits: Counted). EINVAL: not in RESET or INIT. EBUSY: one
    // of them has a counter.
    int attach(const std::shared_ptr<CompletionCounter>& counter, std::uint32_t operations);

    // Queues one request. ENOMEM: the send queue is full. EINVAL, EOPNOTSUPP: with a reason. Nothing is sent
    // yet. In the error state the request completes as flushed.
    virtual int post_send(const SendRequest& request, Time now) = 0;
    // What post_send would answer to one of these, if they were posted one after the other now: 0 means that
    // all go in. For requests that must be posted together or not at all.
    virtual int check_send(std::span<const SendRequest> requests) const = 0;
    // Must be called after requests were posted to the receive queue while in the error state, so that they
    // flush.
    virtual void receives_posted() = 0;

    // One packet whose ICRC is good and whose destination QP is this one; `sender_view` is as it came from
    // the wire.
    virtual void receive(const wire::Packet& packet, const wire::Path& sender_view, Time now) = 0;

    // The straight path: a SEND or WRITE that fits into one packet, an atomic, or a WRITE or READ that the
    // link executes, on a connection where nothing else is going on. These do the whole work, or decline and
    // have changed nothing that the calls above would mind. post_straight() posts requests that are posted
    // together, as many as it can from the first on. What cannot be copied leaves by `sink`, which the caller
    // flushes; without one (nullptr) it does not leave, and is not tried if the last that left had to use
    // one. receive_straight() completes messages of one opcode that came one behind the other, as many as it
    // can, too, and the requests that their asides acknowledge; acknowledge_straight() takes a plain
    // acknowledgement, and settle_straight() sends one, if that is all that is owed; answer_straight()
    // executes an atomic, whose answer leaves by the copier or, later, by transmit(); conclude_straight()
    // takes that answer. Mostly they say what else is to be done. kDeclined: nothing was done.
    using Straight = unsigned;
    static constexpr Straight kDeclined = 0;
    static constexpr Straight kDone = 1;
    static constexpr Straight kOwes = 2;    // an acknowledgement, which may wait: acknowledgement_deadline()
    static constexpr Straight kWaits = 4;   // for one: other_deadline() may have come nearer
    static constexpr Straight kGoesOn = 8;  // transmit() has to be called, whatever else is owed
    struct Taken {
        std::size_t count = 0;
        Straight follows = kDeclined;
    };
    virtual Taken post_straight(std::span<const SendRequest>, wire::PacketCopier&, wire::PacketSink* /*sink*/,
                                const LazyTime&) {
        return {};
    }
    virtual bool execute_straight(const SendRequest&, const LazyTime&) { return false; }
    virtual Taken receive_straight(std::span<const wire::InPacket>, const wire::Path&, Time) { return {}; }
    virtual Straight acknowledge_straight(const wire::BthWords&, const wire::Path&, Time) {
        return kDeclined;
    }
    virtual bool settle_straight(wire::PacketCopier&, wire::PacketSink* /*sink*/, Time) { return false; }
    virtual Straight answer_straight(const wire::WholeAtomic&, wire::PacketCopier&, const wire::Path&, Time) {
        return kDeclined;
    }
    virtual Straight conclude_straight(const wire::WholeAtomicAnswer&, const wire::Path&, Time) {
        return kDeclined;
    }

    // Whether that packet begins a SEND for which no receive is posted, while the program has completions of
    // others to take, behind which it may post one: better received a moment later, if that costs nobody
    // anything.
    virtual bool is_early(const wire::BthWords&) const { return false; }

    // Several packets at once whose ICRCs are good: all of them, or false and nothing has changed that
    // receive() would mind.
    virtual bool receive_run(const wire::ReceivedRun&, const wire::Path&, Time) { return false; }

    // transmit() has nothing to do, so that it need not be called.
    virtual bool quiet(Time, bool /*push_acknowledgements*/) const { return false; }
    // The last transmit() has copied so much that others shall have a turn before it goes on.
    virtual bool took_long() const { return false; }
    // What has to be asked after a burst, in one question: as what came straight does.
    virtual Straight what_follows(Time) { return kDone | kGoesOn; }
    // Sends what may be sent now: responses first, then requests as far as windows allow. Acknowledgements
    // that can wait are held back unless `push_acknowledgements` (an idle poll, a deadline, a disconnect).
    // Returns false if the budget of `max_packets` ended it and more is ready.
    virtual bool transmit(wire::PacketSink& sink, Time now, unsigned max_packets,
                          bool push_acknowledgements) = 0;

    // All of these may wait for others to leave with them, as each is one packet.
    virtual bool may_gather(std::span<const SendRequest>) const { return false; }
    // To its peer, of this queue pair's or another's: bytes, as the window counts them (flow.h). Where nobody
    // knows, something is in a row.
    virtual std::uint32_t under_way(bool /*in_a_row*/) const { return 0; }
    static constexpr std::uint32_t kUnknown = ~0u;
    // The newest of those that were sent have not left yet.
    virtual void newest_wait(unsigned /*requests*/) {}

    // An acknowledgement is owed, and will probably leave with a request before next_deadline().
    virtual bool awaits_company() const { return false; }

    // The window that its requests share with others (flow.h), which it leaves when it is reset or ends; the
    // same if any of these waits there; and its own turn, in which transmit() is called next.
    virtual std::shared_ptr<Flow> flow() const { return nullptr; }
    virtual std::shared_ptr<Flow> crowded_flow() const { return nullptr; }
    virtual void your_turn() {}

    virtual Time next_deadline() const = 0;
    // That of acknowledgements, which next_deadline() includes, and the earliest of all others.
    virtual Time acknowledgement_deadline() const { return kNever; }
    virtual Time other_deadline() const { return next_deadline(); }
    virtual void advance(Time now) = 0;

    // Something was sent that the peer has not acknowledged yet.
    virtual bool awaits_acknowledgement() const = 0;
    // What is left of what was posted; takes as long as there are requests.
    virtual Standing standing() const { return {}; }

    std::uint32_t number() const { return basics_.number; }
    bool is_rc() const { return basics_.service == Service::rc; }
    QpState state() const { return state_; }
    const QpSetup& setup() const { return rest_->setup; }
    const BusyCounters& busy_counters() const { return counters_; }
    const RareCounters& rare_counters() const { return *rest_->setup.rare_counters; }
    QpCounters counters() const { return {counters_, rare_counters()}; }
    // That came for it.
    void count_wire_bytes(std::uint64_t bytes) { counters_.wire_bytes_received += bytes; }

   protected:
    // What few messages need, apart.
    struct Rest {
        explicit Rest(const QpSetup& setup);
        virtual ~Rest() = default;

        QpSetup setup;
        std::unique_ptr<CompletionCounters> completion_counters;
        std::unique_ptr<QpCounters> own_counters;
    };
    explicit QueuePair(std::unique_ptr<Rest> rest);
    RareCounters& rare() { return *rest_->setup.rare_counters; }

    static constexpr const char* kCompletionLost = "one of its completion queues has overrun";
    static constexpr const char* kXrcCompletionLost =
        "the completion queue of an XRC receive queue that a message named has overrun";
    bool completion_lost() const {
        return (basics_.send_cq && basics_.send_cq->in_error()) ||
               (basics_.receive_cq && basics_.receive_cq->in_error());
    }

    // One line of the cache.
    const std::unique_ptr<Rest> rest_;
    BusyCounters& counters_;
    [[no_unique_address]] QpBasics basics_;
    QpState state_ = QpState::reset;

   private:
    template <std::uint32_t kLines>
    static void fetch_lines(const void* begin) {
        const auto fetch = [begin]<unsigned... kLine>(std::integer_sequence<unsigned, kLine...>) {
            ((kLines >> kLine & 1 ? prefetch_to_read(cache_line(begin, kLine)) : void()), ...);
        };
        fetch(std::make_integer_sequence<unsigned, std::bit_width(kLines)>());
    }
};

}  // namespace verbena::transport
