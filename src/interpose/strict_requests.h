// What strict mode knows of requests between their post and their completion, and the mistakes that can be
// told from that. It is told of calls and asks nobody but the memory that requests name.
//
// Not thread-safe; strict.cpp holds a lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace verbena::interpose {

struct StrictBuffer {
    std::uint64_t address = 0;
    std::uint32_t length = 0;
    std::uint32_t lkey = 0;
};

struct StrictSend {
    std::uint64_t wr_id = 0;
    bool signaled = false;
    bool reads_memory = false;  // the adapter reads the buffers until the request completes
    std::vector<StrictBuffer> buffers;
};

struct StrictReceive {
    std::uint64_t wr_id = 0;
    std::vector<StrictBuffer> buffers;
};

// Objects are known by their addresses; names are for sentences.
class Requests {
   public:
    using Object = const void*;
    // `mistake` names the check, `about` the object: a mistake about the same object is told once.
    using Tell = std::function<void(const char* mistake, Object about, const std::string& sentence)>;
    explicit Requests(Tell tell) : tell_(std::move(tell)) {}

    struct Region {
        Object object = nullptr;
        std::string name;
        std::uint64_t first = 0;       // the address by which requests name its first byte (iova)
        const char* memory = nullptr;  // where that is; nullptr: not the program's memory
        std::uint64_t length = 0;
    };
    void region_made(std::uint32_t lkey, Region region);
    // Deregistered or registered anew; `how` is the call.
    void region_gone(std::uint32_t lkey, const char* how);

    void completion_queue_made(Object cq, std::string name, std::uint32_t entries);
    void completion_queue_gone(Object cq) { queues_of_completions_.erase(cq); }

    struct QueuePair {
        std::string name;
        std::uint32_t number = 0;
        std::uint32_t max_send = 0;  // places of the send queue; 0: not known
        Object send_cq = nullptr, receive_cq = nullptr;
        Object shared = nullptr;  // its shared receive queue
    };
    void queue_pair_made(Object qp, QueuePair made);
    // In the error state requests are flushed, memory is not touched any more; in RESET there are none.
    void queue_pair_stopped(Object qp, bool reset);
    void queue_pair_works(Object qp);
    void queue_pair_gone(Object qp);
    void shared_queue_made(Object srq, std::string name);
    void shared_queue_gone(Object srq);

    // Before the call. undo_*: the last `count` of them were refused.
    void post_send(Object qp, const std::vector<StrictSend>& requests);
    void undo_send(Object qp, std::size_t count);
    void post_receive(Object queue, const std::vector<StrictReceive>& requests);  // of a queue pair or shared
    void undo_receive(Object queue, std::size_t count);

    // A completion that was polled; some do not say of which queue pair. Of one that failed the opcode is
    // undefined; `receive` is only a hint then.
    void completed(Object cq, std::uint32_t qp_number, std::uint64_t wr_id, bool success, bool receive);

    static constexpr std::uint32_t kAnyQueuePair = 0xffffffff;

   private:
    struct Send {
        StrictSend request;
        std::uint64_t checksum = 0;
        bool checked = false;
    };
    struct Receive {
        StrictReceive request;
        std::vector<std::uint64_t> begins;  // of the intervals that are its own
    };
    struct Queue {
        QueuePair known;
        std::deque<Send> sends;
        std::uint64_t sends_posted = 0;
        bool stopped = false;
    };
    struct ReceiveQueue {
        std::string name;
        Object cq = nullptr;
        bool shared = false;
        bool stopped = false;
        std::deque<Receive> receives;
        std::uint64_t posted = 0;
        // Whether most of its requests have a wr_id of their own.
        bool tells_apart() const;
    };
    struct CompletionQueue {
        std::string name;
        std::uint32_t entries = 0;
        std::uint64_t outstanding = 0;
    };

    // Memory of a receive that has not completed.
    struct Interval {
        std::uint64_t end = 0, wr_id = 0;
        std::string whose;
    };

    // The one that has some of this memory, if any.
    const Interval* receiving(std::uint64_t begin, std::uint64_t end) const;
    std::uint64_t begin_of(const StrictBuffer& buffer) const;
    const char* memory_of(const StrictBuffer& buffer, const Region** region = nullptr) const;
    bool sum(const StrictSend& request, std::uint64_t& out) const;
    void check_keys(Object queue, const std::string& name, const std::vector<StrictBuffer>& buffers);
    void finish(Object qp, Queue& queue, Send& send, bool look);
    bool finish_send(Object qp, Queue& queue, std::uint64_t wr_id, bool success);
    bool finish_receive(ReceiveQueue& queue, std::uint64_t wr_id);
    void completed_somewhere(Object cq, std::uint64_t wr_id, bool success, bool receive);
    void release(Receive& receive);
    void count(Object cq, int change);
    void drop_all(Object qp);

    Tell tell_;
    std::map<std::uint32_t, Region> regions_;
    std::map<std::uint32_t, std::pair<std::string, const char*>> gone_;  // regions that were: name, how
    std::map<Object, CompletionQueue> queues_of_completions_;
    std::map<Object, Queue> queues_;
    std::map<Object, ReceiveQueue> receives_;      // by queue pair or shared receive queue
    std::map<std::uint64_t, Interval> receiving_;  // by begin; they do not overlap
};

}  // namespace verbena::interpose
