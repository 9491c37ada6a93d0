// The responder of an RC queue pair: checks requests and executes them (rc_responder.cpp, in the order of
// IBA 9.7.4.1), and answers (rc_responses.cpp).
//
// A request packet is one of three (IBA 9.7.4.1.1 .. 9.7.1.2): the expected one, a duplicate, or one from
// behind a gap. Duplicates of SEND and WRITE are acknowledged again and not executed; a duplicate READ is
// executed again from memory; a duplicate atomic is answered from the saved result. The last
// max_dest_rd_atomic READs and atomics are remembered as Resources for that, and FLUSH and ATOMIC WRITE
// likewise, whose answer is a READ response without data (annex A19.4.3). What comes from behind a gap is
// kept, and executed when the gap has closed (rc_gaps.cpp).
//
// Answers leave in PSN order: READ responses and atomic results (the active resources, oldest first), then an
// acknowledgement or NAK. A later answer implies the earlier ones, so that one acknowledgement serves many
// packets. It may wait (company.h) for the caller's next post or idle poll when the packet that asked
// for it ended a message; never when the requester asked in the middle of one, since then its window is
// closing, and never that of an XRC target, which posts nothing: the program answers by another queue pair,
// and does not see the message before its acknowledgement has left (message_receiver.h).
//
// A message that finds no receive is not refused at once: programs post the receive a moment late, the RNR
// timer that rdma_cm sets is 655 ms, and a zeroed rdma_conn_param does not repeat at all. For
// kReceiverPatience we wait for one, and keep the packet, if it has no more than kLargestKept, which is
// fetched if it lies elsewhere (link/local_reference.h); if one comes, the packet is executed as if it had
// come just now. (In a ring it stays for once, if the program has something to take:
// lacks_receive().) If it could not be kept, or others were dropped behind it, the RNR NAK then asks for the
// shortest time; and for min_rnr_timer when no receive comes.
//
// UC (uc_responder.cpp) answers nothing; see there.
//
// Thread safety: the queue pair's lock.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "transport/company.h"
#include "transport/message_receiver.h"
#include "transport/packets_ahead.h"
#include "wire/psn.h"
#include "wire/whole_atomic.h"
#include "wire/whole_send.h"
#include "wire/whole_write.h"

namespace verbena::transport {

inline constexpr std::uint32_t kAcknowledgeEvery = 16;  // packets, at the next transmit
inline constexpr std::uint32_t kLargePacket = 4096;     // bytes: one that has more counts as several
inline constexpr std::size_t kLargestKept = 64 << 10;   // bytes
inline constexpr Duration kReceiverPatience = 5 * kMillisecond;
inline constexpr Duration kReceiverPatienceStep = 100 * kMicrosecond;

// What every message needs of a responder: a base, since it comes before what MessageReceiver has.
class Acknowledging {
   protected:
    enum class Pending : std::uint8_t { none, sequence_nak, rnr_nak, error_nak };

    std::uint32_t expected_psn_ = 0;
    std::uint32_t msn_ = 0;             // 24 bits
    std::uint32_t active_ = 0;          // replays: how many are to be sent
    std::uint32_t unacknowledged_ = 0;  // packets
    Pending pending_ = Pending::none;
    bool failed_ = false;
    bool refusing_ =
        false;          // after a NAK: packets behind the expected one are dropped silently (IBA 9.7.5.2.2)
    bool ask_ = false;  // an acknowledgement is owed
    bool ask_now_ = false;  // ... and does not wait
    Time look_again_at_ = kNever;

    Time acknowledge_at_ = kNever;
    Time owes_since_ = kNever;
    Duration patience_ = kAcknowledgeDelay;
};

class RcResponder : private Acknowledging, private MessageReceiver {
    struct Resource {
        std::uint64_t virtual_address;
        std::uint64_t original;  // an atomic's result
        std::uint32_t rkey, length;
        memory::PdNumber pd;
        std::uint32_t first_psn, packets;
        std::uint32_t msn;
        std::uint32_t next, begin, end;  // packets: to send next; where this answer began and ends
        bool atomic, is_read;            // neither: answered by nothing but a header
        bool active;                     // next..end are to be sent
        bool replay;                     // ... once more, for a duplicate
        bool placed;                     // what was asked of a READ's answer is there (rc_halves.cpp)
    };
    // It waits for a receive.
    struct Kept : KeptPacket {
        bool fetched = false;  // which is acknowledged at once
    };

   public:
    using MessageReceiver::completion_lost;
    using MessageReceiver::completions_wait;
    using MessageReceiver::release_completions;

    struct Rest : MessageReceiver::Rest {
        using MessageReceiver::Rest::Rest;

        std::unique_ptr<Kept> kept;  // while missing_since_ says that a receive is missing
        std::vector<Resource> resources;
        std::uint32_t newest = 0;         // index of the next to be overwritten
        PacketsAhead ahead;               // not empty: `refusing_`
        std::uint32_t dropped_until = 0;  // PSN behind the last packet dropped because of a gap
        std::uint32_t newest_seen = 0;    // PSN of the last packet that came while `refusing_`
        wire::NakCode error_code = wire::NakCode::invalid_request;
    };
    RcResponder(RcShared shared, std::unique_ptr<Rest> rest) noexcept;

    // INIT to RTR.
    void make_room(const Attributes& wanted);  // before start() and configure(), which need no memory then
    void start(std::uint32_t psn);
    // max_destination_rd_atomic may have changed. While an answer is owed, no place is given up.
    void configure();

    // A request packet.
    void receive(const wire::Packet& packet, Time now);

    bool receive_run(const wire::ReceivedRun& run, Time now);  // of SEND and WRITE (rc_runs.cpp)

    // The straight path (rc_straight.cpp): a SEND or WRITE in one packet, or an atomic, the expected one.
    // While it is plain: nothing is being refused, answered or in progress.
    bool is_plain() const {
        return active_ == 0 && pending_ == Pending::none && !refusing_ && message_ == Message::none &&
               !failed_ && missing_since_ == kNever && look_again_at_ == kNever;
    }
    // Whether a SEND that begins with this packet would find none, and nothing has been said of that yet.
    bool lacks_receive(std::uint32_t psn) const {
        return is_plain() && psn == expected_psn_ && !receive_taken_ && rest_->source &&
               rest_->source->waiting() == 0;
    }
    std::uint8_t* place_straight(const wire::WholeSend& send, std::uint32_t psns);
    std::uint8_t* place_straight(const wire::WholeWrite& write, std::uint32_t psns);
    void receive_straight(const wire::WholeSend& send, std::uint8_t* to, std::uint32_t psns, Time now);
    void receive_straight(const wire::WholeWrite& write, std::uint8_t* to, std::uint32_t psns, Time now);
    // rc_short.cpp: SENDs that came together, and where they go.
    struct Short {
        std::uint64_t wr_id;  // of the receive
        std::uint8_t* to;
        const std::uint8_t* from;
        std::uint32_t length;
        bool ask;
    };
    using Shorts = std::array<Short, 16>;
    std::size_t find_short(std::span<const wire::InPacket> packets, Shorts& shorts) const;
    std::size_t receive_short(std::span<const Short> shorts, Time now);
    bool acknowledge_straight(wire::PacketCopier* copier, wire::PacketSink* sink);
    bool answer_straight(const wire::WholeAtomic& request, wire::PacketCopier& copier);

    unsigned transmit(wire::PacketSink& sink, Time now, unsigned budget, bool push);
    // Something other than an acknowledgement is owed.
    bool must_answer() const { return active_ > 0 || pending_ != Pending::none; }
    // If a positive acknowledgement is all that is owed: a request of ours may take it along (wire::Aside).
    bool may_ride() const { return ask_ && !must_answer(); }
    bool owes() const { return ask_; }
    Time owes_since() const { return owes_since_; }               // of the last one, when none is owed
    void wait_up_to(Duration patience) { patience_ = patience; }  // with the next ones
    wire::Aside riding() const {                                  // that one; rides() when it has left
        return {1, true, wire::psn_add(expected_psn_, wire::kPsnMask)};
    }
    void rides() { acknowledged_everything(); }
    wire::Aside ride() {
        const wire::Aside aside = riding();
        rides();
        return aside;
    }
    void takes_back(wire::Aside& riding);  // none did
    // Something may leave now; an acknowledgement that can wait counts only with `push`.
    bool ready(Time now, bool push) const {
        return active_ > 0 ||
               (pending_ != Pending::none && (pending_ != Pending::rnr_nak || now >= look_again_at_)) ||
               acknowledgement_due(now, push);
    }
    bool acknowledgement_due(Time now, bool push) const {
        return ask_ && (push || ask_now_ || unacknowledged_ >= kAcknowledgeEvery || now >= acknowledge_at_);
    }

    Time acknowledgement_deadline() const { return ask_ ? acknowledge_at_ : kNever; }
    Time refusal_deadline() const { return look_again_at_; }  // for lack of a receive

    // A receive was posted: one that is missed may be there.
    void look_again() {
        if (pending_ == Pending::rnr_nak) look_again_at_ = 0;
    }

    // A check failed: the queue pair must go to the error state. The NAK still leaves after that.
    bool failed() const { return failed_; }
    // The error state: the receive in progress is flushed. With `keep_answers`, READ responses that are due
    // leave before the NAK; otherwise only an acknowledgement that nothing precedes.
    void close(bool keep_answers, Time now);

   private:
    Rest& rest() { return static_cast<Rest&>(*rest_); }

    // rc_responder.cpp
    void expected(const wire::Packet& packet, const wire::OpcodeInfo& info, Time now);
    void duplicate(const wire::Packet& packet, const wire::OpcodeInfo& info, Time now);
    void send(const wire::Packet& packet, const wire::OpcodeInfo& info, Time now);
    void write(const wire::Packet& packet, const wire::OpcodeInfo& info, Time now);
    VendorError read(const wire::Packet& packet);
    VendorError atomic(const wire::Packet& packet, const wire::OpcodeInfo& info);
    std::uint8_t* atomic_target(const wire::AtomicEth& eth, VendorError& error);
    VendorError atomic_write(const wire::Packet& packet);
    VendorError flush(const wire::Packet& packet);
    VendorError answer_empty(const wire::Bth& bth);
    VendorError answer_flush(const wire::Bth& bth);
    Resource* take_atomic(std::uint32_t psn, bool add, const wire::AtomicEth& eth, std::uint8_t* target);
    static std::uint64_t execute_atomic(bool add, const wire::AtomicEth& eth, std::uint8_t* target);
    void duplicate_read(const wire::Packet& packet, Resource& resource);
    bool have_receive(const wire::Packet& packet, Time now);
    void accepted(const wire::Packet& packet, bool ends_message, Time now) {
        // It took long to fetch, or the next one is waiting for it: the answer waits for no company.
        if (packet.elsewhere) ask_now_ = true;
        if (packet.aside.psns > 1)
            unacknowledged_ += static_cast<std::uint32_t>(packet.payload_length() / kLargePacket);
        accepted(packet.aside.psns, packet.payload_length(), packet.headers.bth.ack_request, ends_message,
                 now);
    }
    void accepted(std::uint32_t psns, std::size_t bytes, bool ask, bool ends_message, Time now);
    void took(std::uint32_t psns, std::size_t bytes, bool ends_message) {
        expected_psn_ = wire::psn_add(expected_psn_, psns);
        if (ends_message) msn_ = (msn_ + 1) & wire::kPsnMask;
        shared_.counters().bytes_received += bytes;
        unacknowledged_++;
    }
    // On the straight path: all of a message, which lies in its one packet.
    template <class Whole>
    std::uint32_t take_whole(const Whole& message, std::uint8_t* to, std::uint32_t psns, Time now);
    void owe(Time now) {
        if (!std::exchange(ask_, true)) {
            owes_since_ = now;
            acknowledge_at_ = now + patience_;
        }
    }
    void after_expected();
    void fail(VendorError cause, Time now);
    Resource* new_resource(std::uint32_t psn, std::uint32_t packets);
    Resource* find_resource(std::uint32_t psn);

    // rc_gaps.cpp
    void came_ahead(const wire::Packet& packet);
    void from_behind_a_gap(std::uint32_t psn);
    void tell_of_gap(std::uint32_t seen);
    void went_astray(const wire::Packet& packet);
    void close_gap(Time now);

    // uc_responder.cpp
    void receive_unreliable(const wire::Packet& packet, const wire::OpcodeInfo& info, Time now);
    void send_unreliable(const wire::Packet& packet, const wire::OpcodeInfo& info, Time now);
    void write_unreliable(const wire::Packet& packet, const wire::OpcodeInfo& info, Time now);
    void skip_message();
    void fail_unreliable(VendorError cause, Time now);

    // rc_runs.cpp
    unsigned send_run(wire::PacketSink& sink, Resource& resource, unsigned most);

    // rc_responses.cpp
    Resource* oldest_active();
    bool send_response(wire::PacketSink& sink, Resource& resource, Time now);
    void send_acknowledgement(wire::PacketSink& sink, std::uint8_t syndrome, std::uint32_t psn);
    void activate(Resource& resource, std::uint32_t begin, std::uint32_t end);
    void acknowledged_everything() {
        ask_ = ask_now_ = false;
        unacknowledged_ = 0;
        acknowledge_at_ = kNever;
    }
    void receive_is_missing(const wire::Packet& packet, Time now);
    bool keep(const wire::Packet& packet);
    bool execute_kept(Time now);
    bool refuse_for_lack_of_receive(wire::PacketSink& sink, Time now);
    void response_failed(std::uint32_t psn, VendorError error, Time now);
    void replay_failed(wire::PacketSink& sink, Resource& resource, std::uint32_t psn);

    Time missing_since_ = kNever;  // no receive was there; kNever: not waiting for one
};

}  // namespace verbena::transport
