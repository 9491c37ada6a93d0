// The message that a connected queue pair is receiving, RC, XRC and UC alike: SENDs and RDMA WRITEs come
// packet by packet, take a receive request if they need one, are placed and completed. What a packet that
// fails a check causes is the service's.
//
// Thread safety: the queue pair's lock; calls inside a memory::Section.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "transport/rc_shared.h"
#include "transport/vendor_error.h"

namespace verbena::transport {

class MessageReceiver {
   private:
    struct Waiting {
        std::shared_ptr<ReceiveQueue> queue;
        completion::Completion completion;
        bool solicited;
    };

   public:
    // What few messages need, apart.
    struct Rest {
        explicit Rest(const QpSetup& setup)
            : sges(setup.receive_queue ? setup.receive_queue->max_sge() : 0), source(setup.receive_queue) {}
        virtual ~Rest() = default;

        // The receive that was taken.
        std::uint64_t length = 0;
        std::uint32_t sge_count = 0;
        std::vector<Sge> sges;
        std::vector<iovec> places;             // of a payload that is fetched
        std::shared_ptr<ReceiveQueue> source;  // where requests come from
        std::uint64_t offset = 0;              // in the message
        wire::Reth reth;
        wire::Reth refused;            // the range whose check failed last, for the log
        std::vector<Waiting> waiting;  // oldest first
        // Only for Mutation::ack_before_placement.
        std::uint8_t* late_address = nullptr;
        std::uint8_t late_value = 0;
    };

    MessageReceiver(RcShared shared, std::unique_ptr<Rest> rest) noexcept;
    // A request of a shared queue whose message never ended goes back there.
    ~MessageReceiver();
    MessageReceiver(const MessageReceiver&) = delete;
    MessageReceiver& operator=(const MessageReceiver&) = delete;

   protected:
    enum class Message : std::uint8_t { none, send, write };

    bool in_sequence(const wire::OpcodeInfo& info) const;
    bool right_length(const wire::Packet& packet, const wire::OpcodeInfo& info) const;

    // XRC: the queue that the message's first packet names (annex A14), and with it the protection domain.
    VendorError choose_queue(const wire::Packet& packet);

    std::span<const Sge> taken_sges() const { return {rest_->sges.data(), rest_->sge_count}; }
    // False: there is none. One that was taken before and not used is used first.
    bool take_receive();
    void complete_receive(const wire::Packet& packet, const wire::OpcodeInfo& info, completion::Opcode opcode,
                          std::uint32_t length, Time now);
    // The same with what is said of the message.
    void complete_receive(completion::Completion& c, bool solicited, Time now);
    // Where a SEND of one packet goes that fits into the first element of the oldest receive, which it takes
    // when it completes; nullptr: elsewhere, or nowhere.
    std::uint8_t* place_of_whole(std::uint32_t length) {
        ReceiveQueue::Oldest receive;
        if (receive_taken_ || !own_receives_) [[unlikely]] {
            if (!take_receive()) return nullptr;
            receive = {receive_wr_id_, taken_sges()};
        } else if (!own_receives_->oldest(receive)) [[unlikely]] {
            return nullptr;
        }
        receive_wr_id_ = receive.wr_id;
        return place_in(receive, length);
    }
    // The first element of that receive, or nullptr.
    [[gnu::always_inline]] std::uint8_t* place_in(const ReceiveQueue::Oldest& receive,
                                                  std::uint32_t length) const {
        if (receive.sges.empty() || length > receive.sges[0].length) [[unlikely]]
            return nullptr;
        const Sge& sge = receive.sges[0];
        return shared_.regions()
            .local(sge.lkey, pd_of_receive(), sge.address, length, memory::kLocalWrite)
            .address;
    }
    // It completes, with what `fill` adds. After place_of_whole().
    template <class Fill>
    void complete_whole(std::uint32_t length, bool solicited, Time now, Fill&& fill) {
        shared_.counters().messages_received++;
        if (!std::exchange(receive_taken_, false)) own_receives_->drop_oldest();
        shared_.count_completed(Counted::receive, true, length);
        shared_.basics().receive_cq->push_in_place(solicited, [&](completion::Completion& c) {
            describe(c, receive_wr_id_, length, now);
            fill(c);
        });
    }
    // The completion of a receive that took a SEND of that length, without an immediate.
    void describe(completion::Completion& c, std::uint64_t wr_id, std::uint32_t length, Time now) const {
        c = {};
        c.opcode = completion::Opcode::receive;
        c.byte_length = length;
        c.source_qp = shared_.connection().destination_qp;
        identify(c, wr_id, now);
    }
    // The sentence about it; abort_receive() follows.
    void record_receive_failure(VendorError cause) const;
    void abort_receive(completion::Status status, VendorError error, Time now);
    // The message in progress ends here, its request flushed.
    void flush_receive(Time now);
    // An XRC target's completions wait until their acknowledgement has left: the program answers by another
    // queue pair, and the answer must not come to the initiator's program before its own completion.
    bool completions_wait() const {
        return shared_.basics().service == Service::xrc_receive && !rest_->waiting.empty();
    }
    // One of them found no place in the completion queue of its receive queue.
    bool completion_lost() const { return completion_lost_; }
    void release_completions();

    void begin_send();
    // Nothing: the payload lies elsewhere and is not to be had.
    std::optional<VendorError> place_send(const wire::Packet& packet);
    bool is_placed(const wire::Elsewhere& payload) const;
    void show_receives(std::uint32_t expected_psn);
    VendorError begin_write(const wire::Packet& packet, const wire::OpcodeInfo& info);
    std::optional<VendorError> place_write(const wire::Packet& packet);
    bool place_run(const wire::ReceivedRun& run);  // rc_runs.cpp
    memory::LookupError scatter_to_receive(std::uint64_t offset, std::span<const std::uint8_t> bytes);
    std::uint8_t* write_target(std::uint64_t address, std::uint32_t rkey, std::size_t length,
                               VendorError& error);
    VendorError write_payload(std::uint64_t address, std::uint32_t rkey, std::span<const std::uint8_t> bytes);
    // What an rkey of the peer's opens.
    memory::Lookup look_up(std::uint32_t rkey, std::uint64_t address, std::uint64_t length,
                           memory::Access need) const {
        return shared_.regions().remote(rkey, pd_, address, length, need, shared_.basics().number);
    }
    // In which the elements of a receive are looked up: the queue pair's, or a shared queue's own (IBA
    // 10.2.9.1).
    memory::PdNumber pd_of_receive() const {
        return own_receives_ ? shared_.basics().pd : rest_->source->pd();
    }
    VendorError refused(memory::LookupError error, const wire::Reth& range);
    void place_late();  // for Mutation::ack_before_placement

    // What every message needs.
    RcShared shared_;
    Message message_ = Message::none;
    bool receive_taken_ = false;
    bool completion_lost_ = false;
    memory::PdNumber pd_;         // in which remote keys are looked up
    ReceiveQueue* own_receives_;  // Rest::source, if it is the queue pair's own
    std::unique_ptr<Rest> rest_;

   private:
    VendorError check_write_start(const wire::Reth& reth);
    void push_receive(completion::Completion& c, bool solicited, Time now);
    // Whose completion it is.
    void identify(completion::Completion& c, std::uint64_t wr_id, Time now) const {
        c.wr_id = wr_id;
        c.qp_number = shared_.basics().number;
        c.timestamp = static_cast<std::uint64_t>(now);
    }

    std::uint64_t receive_wr_id_ = 0;
};

}  // namespace verbena::transport
