// A receive queue and its buffers: one queue pair's, a shared one, or an XRC one. Each request posted
// completes at most once, for a queue pair that uses the queue, and holds one whole message; what the message
// does not fill stays as it was. A shared queue's limit is reported once for each arming, and in time.
//
// Thread safety: none.
#pragma once

#include <functional>

#include "sim/station.h"
#include "transport/receive_queue.h"

namespace verbena::sim {

struct Delivery {
    const completion::Completion& completion;
    std::span<const std::uint8_t> buffer;  // of the receive request
};

class Pool final : public Party, public transport::ReceiveQueueListener {
   public:
    struct Plan {
        bool shared = false;
        std::uint32_t xrc_domain = 0;
        std::uint32_t depth = 8;     // requests kept posted
        std::uint32_t capacity = 0;  // bytes of each
        std::uint32_t limit = 0;     // armed again and again
        bool slow = false;           // requests are posted again late
    };
    // What a delivery means is the receiver's affair; it answers how many bytes were written.
    using Receiver = std::function<std::size_t(const Delivery&)>;

    Pool(Station& station, const Plan& plan, Receiver receiver);

    // After the station's memory is there; of a queue pair's own queue: the queue pair posts.
    void open(transport::QueuePair* owner);
    std::shared_ptr<transport::ReceiveQueue> queue() { return queue_; }
    std::uint32_t number() const { return number_; }
    bool shared() const { return plan_.shared; }

    void completed(const completion::Completion& completion) override;
    bool turn() override;
    void limit_reached(transport::ReceiveQueue& queue) override;

    // The owner is gone, and with it what it had not completed.
    void abandon();
    // A queue pair ends in the middle of a message, whose request goes back to the shared queue.
    void may_be_half_used() { half_used_ = true; }
    void stop() { stopped_ = true; }  // nothing is posted any more
    // All that used the queue has ended: what was posted has completed or waits in the queue.
    void settle();

   private:
    struct Buffer {
        std::uint32_t offset;
        std::uint64_t wr_id = 0;  // of the request that has it; 0: none
    };
    void fill(Buffer& buffer);
    bool post(Buffer& buffer, std::uint32_t index);
    void watch_limit();

    Station& station_;
    const Plan plan_;
    Receiver receiver_;
    std::shared_ptr<transport::ReceiveQueue> queue_;
    transport::QueuePair* owner_ = nullptr;
    std::uint32_t party_ = 0, number_ = 0;
    std::vector<Buffer> buffers_;
    std::uint64_t generation_ = 0;
    std::uint64_t last_completed_ = 0;  // generation
    Time may_post_at_ = 0;
    bool open_ = false, stopped_ = false, abandoned_ = false, armed_ = false, half_used_ = false;
};

}  // namespace verbena::sim
