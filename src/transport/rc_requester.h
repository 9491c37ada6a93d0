// The requester of an RC queue pair: turns send requests into packets (rc_requester.cpp) and acknowledgements
// and responses into completions (rc_completer.cpp).
//
// The send queue holds the requests that have not completed, oldest first. Three PSNs describe where we are:
//
//     una_ <= next_psn_ <= max_psn_
//     oldest unacknowledged; the cursor: what is sent next; end of what was ever sent
//
// A PSN inside a request is a byte offset (PSN - first_psn) * path MTU, also for a READ, whose PSNs are those
// of its responses. Retransmission is go-back-N: the cursor returns to una_ and everything from there is sent
// again.
//
// A READ is asked for in chunks of at most half the congestion window, or all of it if one may be out, each a
// READ request of its own on the wire: responses are not acknowledged, so this is what keeps them from
// overflowing our receive buffer. A chunk's end never moves, so that a repeated request lies inside the
// original one (IBA 9.4.4).
//
// Loss. A NAK sequence error or a gap in READ responses (implied NAK, IBA 9.7.5.1.1) is obeyed once for each
// una_; repetitions say nothing new. It costs no retry, unlike in the specification, which thinks of a wire
// that hardly loses: programs ask for retry_cnt 0 and run over UDP. What the NAK does not repair, the probe
// does (retransmission.h): its answer tells what arrived, and whether the rest is to be sent again (probe.h).
//
// On a link that can (PacketSink::largest_payload), RC's packets are larger than the path MTU. They keep the
// PSNs that they would have had as packets of the wire, so that what is sent again may leave otherwise.
//
// UC (IBA 9.8.2). What transmit() has sent counts as acknowledged a little later: with the next packet that
// comes, or transmit(), or after some microseconds. Not at once, since a program that waits for the
// completion moves packets meanwhile, and what it does next may be to look for the answer in memory, which
// moves none. As nothing comes back, packets leave in short bursts with pauses, in which a receiver empties
// its socket.
//
// Thread safety: the queue pair's lock.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "transport/flow.h"
#include "transport/local_operations.h"
#include "transport/pacer.h"
#include "transport/packet_pace.h"
#include "transport/packets_ahead.h"
#include "transport/probe.h"
#include "transport/rc_shared.h"
#include "transport/retransmission.h"
#include "transport/send_queue.h"
#include "wire/psn.h"

namespace verbena::transport {

// Of what is short (rc_short.h).
struct ShortPayload {
    const std::uint8_t* bytes = nullptr;
    std::uint32_t length = 0;
};

class RcRequester {
    static constexpr std::uint32_t kNotHeld = ~0u;  // no PSN
    // What few messages need, apart.
    struct Rest {
        explicit Rest(std::uint32_t elements) : iovecs(elements) {}

        PacketPace pace;
        Pacer pacer;
        Time rate_allows_at = kNever;  // as resume_at_, by the rate limit
        std::vector<iovec> iovecs;
        std::uint8_t share = 28;           // ours of a large message that both copy, in 64ths (rc_halves.cpp)
        std::int8_t lean = 0;              // how often the peer was behind us, or before
        std::uint32_t direct_done = 0;     // bytes of the oldest request that the link has executed
        std::uint32_t held_at = kNotHeld;  // una_ when a large message began to wait for the peer
        std::uint32_t recovery_end = 0;    // losses before this PSN belong to one event
        PacketsAhead ahead;                // responses to READs
        Time went_back_at = 0;             // while went_back_: the last time,
        unsigned times_back = 0;           // ... and how often
        memory::GraceWatch grace;          // of the local request at the cursor

        // UC.
        std::uint32_t burst = 0;  // bytes since the last pause, as the window counts them
        Time complete_at = kNever;
        Time pause_over = kNever;  // when the next burst may begin
    };

   public:
    // What it allocates, so that it can be made anew without failing.
    struct Memory {
        explicit Memory(const QpSetup& setup);

        SendQueue::Places places;
        std::unique_ptr<Rest> rest;
    };
    RcRequester(RcShared shared, Memory&& memory) noexcept;

    // Ready to send from the next PSN on (RTR to RTS), and its parameters (which SQD may change).
    void join_flow(const Attributes& attributes);  // before start()
    void start(std::uint32_t psn);
    void configure();
    void pace();  // the rate limit has changed

    int check_room() const { return queue_.check_room(); }
    std::uint32_t room() const { return queue_.room(); }
    const void* first_place() const { return queue_.first_place(); }
    [[gnu::always_inline]] SendEntry& post(const SendRequest& request, std::uint32_t length) {
        return queue_.push(request, length, shared_.basics().signal_all || (request.flags & kSignaled));
    }

    // A response packet: ACK, NAK, READ response, atomic response.
    void receive(const wire::Packet& packet, Time now);
    bool receive_run(const wire::ReceivedRun& run, Time now);  // READ responses (rc_runs.cpp)
    // An acknowledgement that came with a packet of the peer's requester.
    void receive_aside(const wire::Aside& aside, Time now);
    // Of everything up to and including `psn`; false: of nothing that is under way.
    bool receive_acknowledgement(std::uint32_t psn, Time now);

    // The straight path (rc_straight.cpp). While it is plain: nothing waits, and nothing is sent again. Of
    // what was so, an acknowledgement may change all but the pacing.
    bool is_plain() const { return stays_plain() && !paced_; }
    bool stays_plain() const { return is_level() && !recovering_ && !went_back_ && probe_.idle(); }
    // A SEND or WRITE that can leave as one.
    bool goes_straight(const SendRequest& request, std::uint32_t together, iovec& payload,
                       const LazyTime& now);
    void make_straight(const SendRequest& request, const iovec& payload, wire::OutPacket& out) const;
    bool may_leave(std::uint32_t length) const { return flow_.allows(length + Flow::kPacketOverhead); }
    // It has left. What was copied to a peer of this host waits in its ring: nothing of it is in the window,
    // which is there for sockets.
    [[gnu::always_inline]] void left_straight(const SendRequest& request, std::uint32_t psns,
                                              std::uint32_t length, bool copied, const LazyTime& now) {
        if (!copied) flow_.sent(length + Flow::kPacketOverhead);
        if (by_packets_) [[unlikely]]
            watch_straight(request.is_one_sided(), length, now);

        SendEntry& entry = post(request, length);
        current_++;
        entry.beside_window = copied;
        if (request.is_atomic()) {
            outstanding_reads_++;
            begin_sample(next_psn_, now);
        } else {
            sample_sometimes(next_psn_, wire::psn_add(next_psn_, psns - 1), now);
        }
        left_whole(entry, psns);
    }
    // rc_short.h
    bool is_short(const SendRequest& request, ShortPayload& payload);
    std::uint32_t next_psn() const { return next_psn_; }
    // What has left waits for an acknowledgement. True: next_deadline() may have come nearer.
    [[gnu::always_inline]] bool waits(bool copied, const LazyTime& now) {
        return retransmission_.sent(now, copied);
    }
    bool acknowledge_straight(std::uint32_t psn, Time now);
    bool execute_straight(const SendRequest& request, const LazyTime& now);  // WRITE and READ, by the link
    // An atomic, and its answer.
    bool asks_straight(const SendRequest& request, wire::OutPacket& out) const;
    bool conclude_straight(const wire::WholeAtomicAnswer& answer, Time now);

    // `riding`: an acknowledgement to be taken along by the first packet that can (and then forgotten there).
    unsigned transmit(wire::PacketSink& sink, Time now, unsigned budget, wire::Aside& riding);
    // Whether what leaves next, which there is, can take one along.
    bool takes_along(wire::PacketSink& sink) const;
    bool may_send() const { return wants_to_send() && has_room(); }
    bool probes() const { return probe_due_; }
    bool quiet() const { return !probe_due_ && !wants_to_send() && !flow_.has_turn(); }

    // After transmit(): lines up for a turn if there is something to send and others fill the window
    // (flow.h). True: it did not, because the window has opened since, perhaps by another thread, and nobody
    // else will call; so the caller must come again, whatever may_send() says by then.
    bool line_up(bool sent_something);
    void your_turn() { flow_.turn(true); }
    const std::shared_ptr<Flow>& flow() const { return flow_.flow(); }
    std::shared_ptr<Flow> crowded_flow() const { return flow_.crowded(); }
    bool is_crowded() const { return flow_.is_crowded(); }
    // The last transmit() has written a large message, and there is more.
    bool took_long() const { return took_long_ && wants_to_send(); }
    bool outstanding() const { return una_ != max_psn_; }          // sent, and not acknowledged
    std::uint32_t under_way() const { return flow_.under_way(); }  // anybody's
    Standing standing() const;
    bool is_paced() const { return paced_; }
    // No round trip is measured from one that has not left.
    void newest_wait(unsigned requests) {
        if (sampling_ && ((next_psn_ - sample_psn_) & wire::kPsnMask) <= requests) sampling_ = false;
    }

    Time next_deadline() const {
        if (!shared_.reliable()) [[unlikely]]
            return std::min(
                {grace_look_at_, rest_->complete_at, rate_deadline(),
                 rests_between_bursts() && current_ != queue_.size() ? rest_->pause_over : kNever});
        const Time waiting = std::min(grace_look_at_, rate_deadline());
        return std::min(waiting, resume_at_ != kNever ? resume_at_ : retransmission_.next_deadline());
    }
    void advance(Time now);

    // UC: everything sent so far counts as acknowledged.
    void complete_sent(Time now);

    // Send queue drain (IBA 10.3.1.5): no new request starts. `drained` when those that started have
    // completed.
    void drain(bool on) {
        draining_ = on;
        end_pace();
    }
    bool drained() const {
        return queue_.empty() || (una_ == max_psn_ && !queue_.at(0).started && rest_->direct_done == 0);
    }

    // A request completed in error; the queue pair must go to the error state and flush.
    bool failed() const { return failed_; }
    void flush(Time now);

    Duration smoothed_round_trip() const { return retransmission_.smoothed_round_trip(); }

   private:
    // UC: 16 packets of 4 KiB fit into a default socket buffer, with room for another sender's.
    static constexpr std::uint32_t kBurst = 16 * ((4 << 10) + Flow::kPacketOverhead);
    // Of messages that go one at a time, every so many is measured.
    static constexpr std::uint8_t kSampleEvery = 8;

    // rc_requester.cpp: sending
    bool wants_to_send() const;
    bool may_ask() const;
    bool awaits_more_than(std::uint32_t count) const;
    Time rate_deadline() const { return paced_ ? rest_->rate_allows_at : kNever; }
    bool waits_for_rate() const { return rate_deadline() != kNever; }
    bool rests_between_bursts() const { return !shared_.reliable() && rest_->burst >= kBurst; }
    bool has_room() const;
    bool prepare(SendEntry& entry, Time now);
    std::uint32_t read_chunk() const;
    std::uint32_t wire_size(const SendEntry& entry, std::uint32_t packet, std::uint32_t count) const;
    void count_against_rate(std::uint32_t bytes, Time now);
    unsigned send_next(wire::PacketSink& sink, Time now, unsigned most, wire::Aside& riding);
    struct Portion {
        std::uint32_t psns = 1;
        bool is_run = false;  // else one packet, perhaps a large one
    };
    Portion at_once(wire::PacketSink& sink, const SendEntry& entry, std::uint32_t packet,
                    unsigned most) const;
    void next_burst(wire::PacketSink& sink, Time now);
    // A round trip is measured from the packet that is about to be sent, or just has been, unless one is.
    void begin_sample(std::uint32_t psn, const LazyTime& now) {
        if (sampling_) return;
        passed_over_ = 0;
        sampling_ = true;
        sample_psn_ = psn;
        sample_time_ = now.get();
    }
    // The same of a SEND or WRITE, on the straight way and on the long one. Where these go one at a time
    // there are more round trips than are needed.
    void sample_sometimes(std::uint32_t first, std::uint32_t last, const LazyTime& now) {
        const bool alone = first == una_ && retransmission_.knows_the_round_trip();
        if (!alone || ++passed_over_ >= kSampleEvery) begin_sample(last, now);
    }
    bool sampled() const { return sampling_ && wire::psn_less(sample_psn_, una_); }
    void end_sample(Time now) {
        sampling_ = false;
        retransmission_.measured(now - sample_time_);
    }
    bool emit(wire::PacketSink& sink, SendEntry& entry, std::uint32_t packet, std::uint32_t& count, bool ask,
              Time now, wire::Aside& riding);
    void emit_read(wire::PacketSink& sink, const SendEntry& entry, std::uint32_t packet, std::uint32_t psn);
    void emit_atomic(wire::PacketSink& sink, const SendEntry& entry, std::uint32_t psn);
    void emit_flush(wire::PacketSink& sink, const SendEntry& entry, std::uint32_t psn);
    bool may_run(const SendEntry& local) const;
    bool run_local(SendEntry& entry, Time now);
    std::uint32_t step(const SendEntry& entry, std::uint32_t packet) const;
    std::uint32_t size(const SendEntry& entry, std::uint32_t from, std::uint32_t to) const;
    std::uint32_t cost(const SendEntry& entry, std::uint32_t from, std::uint32_t to) const;
    // What a packet of the path MTU takes of the window.
    std::uint32_t full_cost() const { return shared_.mtu() + Flow::kPacketOverhead; }
    std::uint32_t ack_request_interval() const;
    bool asks_acknowledgement(const SendEntry& entry, std::uint32_t packets, std::uint32_t cost);
    void local_error(SendEntry& entry, VendorError error, Time now);

    // rc_direct.cpp
    // What is executed, or written into a receive, at a time: nobody waits long for the queue pair's lock.
    static constexpr std::uint32_t kPart = 1 << 20;
    // Of one that goes on there: it ends at a multiple of eight, so that no aligned word is cut.
    static std::uint32_t part_at(std::uint64_t remote_address) {
        return kPart - static_cast<std::uint32_t>(remote_address & 7);
    }
    bool may_go_directly(const SendEntry& entry) const;
    [[gnu::noinline]] bool leaves_as_packet(std::uint32_t length, std::uint32_t together,
                                            const LazyTime& now);
    bool execute_directly(Time now);
    void choose_way(std::uint32_t length, bool read, std::uint32_t waiting, Time now);
    void watch_packets(Time now);
    void watch_straight(bool one_sided, std::uint32_t length, const LazyTime& now);
    bool goes_with_others();
    void choose_fetching(SendEntry& entry, Time now);
    struct Place {
        Direct when;            // done: now
        std::uint32_t receive;  // ShownReceives
    };
    Place place_of(const SendEntry& entry) const;
    Direct write_ahead(wire::PacketSink& sink, const SendEntry& entry, std::uint32_t packets, Time now,
                       wire::Aside& riding);
    void measure_anew(const SendEntry& entry, bool large, Time now);
    void tell_pace(Time now, bool goes_on);
    // One was acknowledged.
    void tell_passed(const SendEntry& entry, Time now) {
        if (measures(entry.length, way_of(entry))) [[unlikely]]
            rest_->pace.passed(now);
    }
    // Rest::pace, without a look at it where it has nothing to do.
    void begin_pace(std::uint32_t length, PacketPace::Way way, Time now) {
        rest_->pace.begins(length, way, now);
        pacing_ = Pacing::measures;
    }
    void end_pace() {
        if (std::exchange(pacing_, Pacing::nothing) != Pacing::nothing) [[unlikely]]
            rest_->pace.ends();
    }
    bool measures(std::uint32_t length, PacketPace::Way way) const {
        return pacing_ == Pacing::measures && rest_->pace.measures(length, way);
    }
    static PacketPace::Way way_of(const SendEntry& entry) {
        if (!entry.is_send()) return entry.is_read() ? PacketPace::Way::answers : PacketPace::Way::packets;
        return entry.fetched ? PacketPace::Way::fetched : PacketPace::Way::copied;
    }
    bool transfer_directly(const DirectTarget& target, std::span<const iovec> list, bool read,
                           std::uint32_t length);
    void count_direct(bool read, std::uint32_t length, bool first, bool last);

    // rc_halves.cpp
    bool may_be_halved(const SendEntry& entry, Time now) const;
    bool only_reads_before() const;
    bool is_beneath_others(const SendEntry& read) const;
    void doubt_halves();
    void choose_halves(SendEntry& entry, Time now);
    struct Part {
        std::uint32_t packets;
        bool ours;  // to copy; else it is the peer's, or travels
    };
    std::uint32_t tail_of(const SendEntry& entry) const;
    struct Split {
        std::uint32_t between, end;  // packets: theirs, ours
    };
    Split split_of(const SendEntry& entry, std::uint32_t at, std::uint32_t last) const;
    Part next_part(const SendEntry& entry) const;
    bool is_divided(const SendEntry& read, std::uint32_t at) const {
        if (!read.halved) return false;
        const auto [between, end] = split_of(read, at, read.packets);
        return between < end;
    }
    bool goes_on_beside(const SendEntry& written) const;
    void copied_half(int times);
    Direct write_half(wire::PacketSink& sink, const SendEntry& entry, std::uint32_t packets, Time now,
                      wire::Aside& riding);
    void read_half(wire::PacketSink& sink, SendEntry& entry, Time now);

    // rc_whole.cpp
    bool is_whole(const SendEntry& entry) const;
    unsigned send_whole(wire::PacketSink& sink, Time now, unsigned budget, wire::Aside& riding);
    // A request that asks for an acknowledgement has left as one for the first time.
    void left_whole(SendEntry& entry, std::uint32_t packets) {
        entry.first_psn = next_psn_;
        entry.packets = packets;
        entry.started = true;
        since_ack_request_ = 0;
        next_psn_ = max_psn_ = wire::psn_add(next_psn_, packets);
    }

    // rc_straight.cpp
    bool several_go_straight(std::size_t length, const LazyTime& now) const;  // packets
    bool is_level() const {                                                   // all that was posted has left
        return current_ == queue_.size() && next_psn_ == max_psn_ && resume_at_ == kNever && !failed_ &&
               !probe_due_;
    }
    // The oldest request, if it left as one packet, straight or alone, and nothing completes with it; or
    // nullptr.
    SendEntry* oldest_alone() {
        if (una_ == max_psn_ || queue_.empty()) [[unlikely]]
            return nullptr;
        SendEntry& head = queue_.at(0);
        if (!head.started || head.is_local() || (head.packets != 1 && !left_as_one(head))) [[unlikely]]
            return nullptr;
        if (queue_.size() > 1) {
            const SendEntry& next = queue_.at(1);
            if (next.done || next.local_error != VendorError::none) [[unlikely]]
                return nullptr;
        }
        return &head;
    }
    // The same, if its last PSN is this.
    SendEntry* alone_answered(std::uint32_t psn) {
        SendEntry* const head = oldest_alone();
        return head && wire::psn_add(una_, head->packets - 1) == psn ? head : nullptr;
    }
    bool left_as_one(const SendEntry& head) const {
        return head.beside_window && una_ == head.first_psn &&
               in_flight(wire::psn_add(una_, head.packets - 1));
    }
    void complete_straight(const SendEntry& head, Time now);

    // rc_gaps.cpp
    void sequence_error(bool named, Time now);
    bool send_probe(wire::PacketSink& sink, Time now);
    void cursor_to_una();
    void go_back();
    void less_room();  // something that is outstanding has been lost
    void lost();       // ... and all of it is sent again
    void responses_ahead(Time now);

    // rc_completer.cpp: what comes back
    void acknowledged(std::uint32_t psn, Time now);
    void refused(std::uint32_t psn, std::uint8_t code, Time now);
    void receiver_not_ready(std::uint32_t psn, std::uint8_t timer, Time now);
    void read_response(const wire::Packet& packet, Time now);
    void atomic_response(const wire::Packet& packet, Time now);
    bool acknowledge_before(std::uint32_t end, Time now);
    void complete_run(std::uint32_t end, Time now);
    SendEntry* awaiting(std::uint32_t psn, Time now);
    void advance_una(SendEntry& head, std::uint32_t packets, Time now);
    void implied_nak(Time now);
    void finish_progress(Time now);
    void progress_undisturbed(Time now) {
        progressed_ = false;
        const bool rest = outstanding();
        retransmission_.progress(now, rest);
        drain_first_ = drain_first_ && rest;
        if (packets_since_ != kNever) watch_packets(now);
    }
    void complete_oldest(Time now) {
        SendEntry& oldest = queue_.at(0);
        shared_.counters().messages_sent += oldest.is_send();
        push(oldest, completion::Status::success, VendorError::none, now);
        queue_.pop();
        if (current_ > 0)
            current_--;
        else
            current_packet_ = 0;  // acknowledged before it was sent again; finish_progress() moves the cursor
    }
    void complete_head(Time now);
    void give_up(Time now);
    void fail_head(completion::Status status, VendorError error, Time now);
    std::string particulars(const SendEntry& entry, VendorError error) const;
    // Errors complete with an entry whether signaled or not (IBA 10.8.6).
    void push(const SendEntry& entry, completion::Status status, VendorError error, Time now) {
        shared_.count_completed(entry.operation, status == completion::Status::success, entry.length);
        if (status == completion::Status::success && !entry.signaled) return;
        queue_.completed(shared_.basics().send_cq->push_in_place(false, [&](completion::Completion& c) {
            c = {};
            c.wr_id = entry.wr_id;
            c.status = status;
            c.opcode = completion_opcode(entry.operation);
            c.vendor_error = static_cast<std::uint32_t>(error);
            c.byte_length = status == completion::Status::success && entry.awaits_data() ? entry.length : 0;
            c.qp_number = shared_.basics().number;
            c.timestamp = static_cast<std::uint64_t>(now);
        }));
    }

    // What the link might have executed waits for the peer since then; kNever: nothing does; kUnwatched:
    // nobody knows.
    static constexpr Time kUnwatched = kNever - 1;
    void served_since(Time at, Time now) {
        if (at == kNever)
            flow_.wave().ends(this, now);
        else if (packets_since_ == kNever)
            flow_.wave().begins(shared_.basics().send_cq, this);
        packets_since_ = at;
    }

    bool in_flight(std::uint32_t psn) const;
    std::uint32_t una_offset() const { return (una_ - queue_.at(0).first_psn) & wire::kPsnMask; }

    // What every message needs: four lines of the cache.
    RcShared shared_;
    std::uint32_t una_ = 0, next_psn_ = 0, max_psn_ = 0;
    std::uint32_t current_ = 0;         // the cursor's request: index in the queue
    std::uint32_t current_packet_ = 0;  // ... and packet inside it
    bool failed_ = false;
    bool probe_due_ = false;
    bool recovering_ = false;
    bool went_back_ = false;   // for this una_ already, because of a NAK
    bool progressed_ = false;  // una_ moved since finish_progress()
    // Whether the link executes what it is asked to. never: there is none that could.
    enum class Directly : std::uint8_t { never, not_now, hopefully };
    Directly directly_ = Directly::never;
    bool by_packets_ = false;   // WRITEs and READs that the link may execute leave as packets for now
    bool drain_first_ = false;  // ... not any more, and those under way are waited for
    bool took_long_ = false;    // transmit()
    bool declined_ = false;     // the last large SEND could not be written into its receive
    bool sampling_ = false;
    std::uint8_t passed_over_ = 0;  // messages since the last one that was measured
    std::uint32_t sample_psn_ = 0;
    std::uint32_t since_ack_request_ = 0;  // packets
    Time sample_time_ = 0;
    Time resume_at_ = kNever;  // RNR: nothing is sent before; kNever: not waiting

    alignas(64) Time grace_look_at_ = kNever;  // kNever: not waiting for it
    Time packets_since_ = kNever;  // what left by_packets_, or what is behind the newest answer, waits
    DirectAccess* const direct_;   // QpSetup
    FlowShare flow_;               // una_..next_psn_ is in flight
    std::uint16_t outstanding_reads_ = 0;  // READ requests and atomics sent and not answered
    std::uint16_t reads_at_once_ = 1;      // the most that its program had posted
    bool draining_ = false;
    bool paced_ = false;  // there is a rate limit
    // What Rest::pace does: pauses, since nothing is out; what follows may go on with it.
    enum class Pacing : std::uint8_t { nothing, pauses, measures };
    Pacing pacing_ = Pacing::nothing;
    std::unique_ptr<Rest> rest_;

    alignas(64) Retransmission retransmission_;
    alignas(64) SendQueue queue_;
    Probe probe_;
};

}  // namespace verbena::transport
