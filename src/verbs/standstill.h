// What stands still in a program, and why. A hang has no call that fails and could have a reason; so whoever
// asks for reasons (VERBENA_LOG=warn) is told of requests, completions and events that have been waited for
// for some seconds in vain, if it can be said what they wait for.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "completion/completion_queue.h"
#include "transport/standing.h"

namespace verbena::verbs {

class Standstill {
   public:
    static constexpr Duration kLookEvery = kSecond;
    static constexpr Duration kLong = 2 * kSecond;
    static constexpr std::uint32_t kManyPolls = 1000;  // of a completion queue, in that time

    // As they are found at one moment. `polls`, `rnr_naks_...` and `messages_received` only grow.
    struct QueuePair {
        std::uint32_t number = 0;
        std::string peer;  // "QP 0x... at ADDRESS"
        transport::Standing standing;
        std::uint8_t timeout = 0, rnr_retry = 0;  // as ibv_modify_qp has set them
        std::uint32_t receives = 0;               // posted, also to the shared queue that it takes them from
        std::uint64_t rnr_naks_received = 0, rnr_naks_sent = 0, messages_received = 0;
    };
    struct Queue {
        std::uint32_t number = 0;  // as tools name it
        const void* identity = nullptr;
        const void* channel = nullptr;  // nullptr: it has none
        completion::CompletionQueue::Notice notice;
        std::uint64_t taken = 0;  // completions that there ever were, but for those that wait:
        std::uint32_t waiting = 0;
        std::uint32_t polls = 0;   // in vain
        bool may_get_one = false;  // something posted completes here
        bool silent = false;       // requests have been sent whose completions, if they had any, came here
    };
    struct Channel {
        const void* identity = nullptr;
        unsigned events = 0;                  // that nobody has taken yet
        unsigned sleepers = 0;                // threads in ibv_get_cq_event
        std::uint32_t queues = 0, found = 0;  // that it has, and that were found
    };
    struct Found {
        std::vector<QueuePair> queue_pairs;
        std::vector<Queue> queues;
        std::vector<Channel> channels;
    };

    // Reasons for what has not moved for kLong, each once until it moves.
    std::vector<std::string> look(const Found& found, Time now);

   private:
    enum class Kind : std::uint8_t { sender, receiver, untaken, silent, unarmed };
    struct Watched {
        std::uint64_t position = 0;  // which it leaves when it moves
        std::uint64_t count = 0;     // of what happens meanwhile, when it came there
        Time since = 0;
        bool told = false, seen = false;
    };
    // Has been at that position for kLong, and was not told of: nullptr, or what is known of it.
    Watched* stays(Kind kind, std::uint64_t object, std::uint64_t position, std::uint64_t count);

    void look_at_sender(const QueuePair& qp);
    void look_at_receiver(const QueuePair& qp);
    void look_at_queue(const Queue& queue, const Channel* channel);
    // `taken`: by all of its completion queues. `hopeful`: an event may come of one of them, or they hold
    // what look_at_queue() tells.
    void look_at_channel(const Channel& channel, std::uint64_t taken, bool hopeful);
    long long seconds_since(const Watched& watched) const { return (now_ - watched.since) / kSecond; }
    [[gnu::format(printf, 3, 4)]] void tell(Watched& watched, const char* format, ...);

    std::map<std::pair<Kind, std::uint64_t>, Watched> watched_;
    Time now_ = 0;
    std::vector<std::string> reasons_;
};

}  // namespace verbena::verbs
