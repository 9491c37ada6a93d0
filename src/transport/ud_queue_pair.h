// A queue pair of the unreliable datagram service (IBA 9.8.3): each message is one packet, each send request
// names its destination, nothing is acknowledged. A send completes when its packet has been given to the
// link; a packet that finds no receive is dropped.
//
// Errors. A send request that fails (key, length) completes so and takes the queue pair to the send queue
// error state: later requests flush, receiving goes on, and the program returns to RTS itself (IBA 10.3.1.6).
// A receive request that fails takes the queue pair to the error state.
//
// Thread safety: the queue pair's lock (queue_pair.h).
#pragma once

#include <string>
#include <vector>

#include "transport/common.h"
#include "transport/pacer.h"
#include "transport/send_queue.h"

namespace verbena::transport {

class UdQueuePair final : public QueuePair {
   public:
    explicit UdQueuePair(const QpSetup& setup);

    int modify(const Attributes& attributes, std::uint32_t mask, Time now) override;
    void query(Attributes& attributes) const override;
    int post_send(const SendRequest& request, Time now) override;
    int check_send(std::span<const SendRequest> requests) const override;
    void receives_posted() override;
    void receive(const wire::Packet& packet, const wire::Path& sender_view, Time now) override;
    bool transmit(wire::PacketSink& sink, Time now, unsigned max_packets,
                  bool push_acknowledgements) override;
    bool quiet(Time, bool) const override { return queue_.empty() && !completion_lost(); }
    bool may_gather(std::span<const SendRequest> requests) const override;
    std::uint32_t under_way(bool in_a_row) const override { return in_a_row ? kUnknown : 0; }
    Time next_deadline() const override { return rate_allows_at_; }
    void advance(Time now) override {
        if (now >= rate_allows_at_) rate_allows_at_ = kNever;
    }
    bool awaits_acknowledgement() const override { return false; }

   private:
    // Of the send request in the same slot of the queue.
    struct Destination {
        wire::Path path;
        std::uint32_t qp;
        std::uint32_t qkey;
    };

    bool accepts(const wire::Headers& headers, const wire::Path& sender_view) const;
    bool emit(wire::PacketSink& sink, SendEntry& entry);
    void complete_oldest(completion::Status status, VendorError error, Time now);
    void flush_sends(Time now);
    void fail_receive(std::uint64_t wr_id, completion::Status status, VendorError error,
                      const std::string& particulars, Time now);
    void tell_of_drop(const wire::Headers& headers);
    void enter_error(Time now);
    void after(Time now);
    void reset();
    void pace();

    Attributes attributes_;
    SendQueue queue_;
    std::vector<Destination> destinations_;
    std::vector<iovec> iovecs_;
    std::vector<Sge> receive_sges_;
    std::uint32_t psn_ = 0;
    Pacer pacer_;
    Time rate_allows_at_ = kNever;  // kNever: nothing waits for the rate limit
    Gid group_source_;              // of what was last sent to a group
    bool drop_told_ = false;
    Time last_now_ = 0;  // for flushes that no call with a time causes
};

}  // namespace verbena::transport
