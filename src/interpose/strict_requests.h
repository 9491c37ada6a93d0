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

#include "interpose/strict_regions.h"
#include "interpose/strict_remembered.h"

namespace verbena::interpose {

struct StrictSend {
    std::uint64_t wr_id = 0;
    bool signaled = false;
    bool reads_memory = false;  // the adapter reads the buffers until the request completes, and none writes
    std::vector<StrictBuffer> buffers;  // none of inline data, which the post copies
};

struct StrictReceive {
    std::uint64_t wr_id = 0;
    std::vector<StrictBuffer> buffers;
};

// Objects are known by their addresses; names are for sentences.
//
// A call is told of before it is made and after it has returned, and other threads call meanwhile. So what
// several threads post or poll may be told in another order than it happened in; nothing is a mistake that
// such an order explains.
class Requests {
   public:
    using Object = const void*;
    // `mistake` names the check, `about` the object: a mistake about the same object is told once.
    using Tell = std::function<void(const char* mistake, Object about, const std::string& sentence)>;
    explicit Requests(Tell tell) : tell_(std::move(tell)) {}

    // Before and after a call that deregisters a region or registers it anew; `how` is the call.
    std::uint64_t region_leaves(const Regions::Key& key, const char* how);
    Regions::Region region_left(std::uint64_t ticket, bool success);  // returns what it was
    void region_made(const Regions::Key& key, Regions::Region region) {
        regions_.made(key, std::move(region));
    }
    void region_imported(const Regions::Key& key, Regions::Region region) {
        regions_.imported(key, std::move(region));
    }

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
    // Until it works, and when it has failed, no memory is touched; in RESET there are no requests.
    void queue_pair_stopped(Object qp, bool reset);
    void queue_pair_works(Object qp);
    void queue_pair_gone(Object qp);
    void shared_queue_made(Object srq, std::string name);
    void shared_queue_gone(Object srq);

    // Before the call, which returns a ticket, and after it: the first so many have been accepted.
    std::uint64_t post_send(Object qp, const std::vector<StrictSend>& requests);
    void posted_send(Object qp, std::uint64_t ticket, std::size_t accepted);
    std::uint64_t post_receive(Object queue, const std::vector<StrictReceive>& requests);  // shared ones, too
    void posted_receive(Object queue, std::uint64_t ticket, std::size_t accepted);

    // Around a poll that may take so many completions, and what it took of them. The begin's moment tells
    // whether they may be of a time before something else happened.
    std::uint64_t poll_begins(Object cq, std::uint32_t most);
    void poll_ends(Object cq, std::uint32_t most);

    // A completion that was polled; some do not say of which queue pair. Of one that failed the opcode is
    // undefined; `receive` is only a hint then.
    struct Completion {
        std::uint32_t number = kAnyQueuePair;
        std::uint64_t wr_id = 0;
        bool success = true, receive = false;
    };
    void completed(Object cq, const Completion& completion, std::uint64_t began);

    static constexpr std::uint32_t kAnyQueuePair = 0xffffffff;

   private:
    struct Posted {
        std::uint64_t ticket = 0;
        std::size_t place = 0;  // in the post
        bool counted = false;   // among what is outstanding of the completion queue
        bool over = false;  // may be; its buffers are the program's then, though its completion may follow
    };
    struct Send : Posted {
        StrictSend request;
        std::uint64_t checksum = 0;
        bool checked = false;  // has a checksum
    };
    struct Receive : Posted {
        StrictReceive request;
        std::vector<std::uint64_t> begins;  // of the intervals that are its own
    };
    struct Queue {
        QueuePair known;
        std::deque<Send> sends;
        std::uint64_t sends_posted = 0;
        std::uint64_t since = 0;  // the moment when it was made or reset
        bool stopped = true;
        // Taken out of `sends` without a completion of their own.
        bool forgot_signaled = false, forgot_unsignaled = false;
    };
    struct ReceiveQueue {
        std::string name;
        Object cq = nullptr;
        bool shared = false;
        std::deque<Receive> receives;
        std::uint64_t posted = 0;
        // Whether most of its requests have a wr_id of their own.
        bool tells_apart() const;
    };
    struct CompletionQueue {
        std::string name;
        std::uint32_t entries = 0;
        std::uint64_t outstanding = 0;
        std::uint64_t polls = 0, polled = 0;  // under way, and what they may take
    };
    struct LeavingRegion {
        Regions::Key key;
        std::uint64_t number;
        const char* how;
        std::vector<std::pair<Object, std::string>> mistakes;
    };
    struct GoneQueuePair {
        std::uint64_t since;
        Object send_cq, receive_cq;
    };

    // Memory of a receive that has not completed.
    struct Interval {
        std::uint64_t end = 0, wr_id = 0;
        std::string whose;
    };

    // The one that has some of this memory, if any.
    const Interval* receiving(std::uint64_t begin, std::uint64_t end) const;
    bool is_shared_with_receives(const StrictBuffer& buffer) const;
    void check_keys(Object queue, const std::string& name, const std::vector<StrictBuffer>& buffers);
    bool may_receive(Object queue) const;
    using Sends = std::deque<Send>;
    static Sends::iterator find_send(Queue& queue, std::uint64_t wr_id, bool success);
    void look(Object qp, const Queue& queue, Send& send);
    static void may_be_over(Queue& queue, std::uint64_t wr_id);
    void forget_oldest(Queue& queue);
    bool finish_send(Object qp, Queue& queue, std::uint64_t wr_id, bool success);
    bool finish_receive(ReceiveQueue& queue, std::uint64_t wr_id);
    void completed_somewhere(Object cq, const Completion& completion);
    void completed_nowhere(Object cq, const Completion& completion, std::uint64_t began);
    bool others_poll(Object cq) const;
    void release(Receive& receive);
    void accept(Posted& request, Object cq);
    void uncount(Posted& request, Object cq);
    void drop_all(Object qp);

    static constexpr std::size_t kRemembered = 4096;
    static constexpr std::uint32_t kMaxSend = 32768;  // of queue pairs that do not say

    Tell tell_;
    Regions regions_;
    std::uint64_t moment_ = 0;
    std::map<std::uint64_t, LeavingRegion> leaving_;
    std::map<Object, CompletionQueue> queues_of_completions_;
    std::map<Object, Queue> queues_;
    Remembered<std::uint32_t, GoneQueuePair> gone_queues_{kRemembered};  // by number
    std::map<Object, ReceiveQueue> receives_;      // by queue pair or shared receive queue
    std::map<std::uint64_t, Interval> receiving_;  // by begin; they do not overlap
};

}  // namespace verbena::interpose
