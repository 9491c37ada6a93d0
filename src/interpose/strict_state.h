// What the parts of strict mode share: what is known, under one lock, and how a mistake is told.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "interpose/fork_lock.h"
#include "interpose/objects.h"
#include "interpose/strict_ledger.h"
#include "interpose/strict_requests.h"

namespace verbena::interpose::strict_mode {

extern ForkLock lock;

struct State {
    Requests requests;
    Unacknowledged events;        // of completion queues and ids
    Unacknowledged async_events;  // of queue pairs, queues
    Inventory inventory;
    std::set<const void*> all_signaled;            // queue pairs with sq_sig_all
    std::map<const void*, std::uint64_t> leaving;  // while they are being destroyed, by which call
    std::set<std::pair<std::string, const void*>> told;
    std::uint64_t calls = 0;
    State();
};

// The caller has the lock, as long as it looks at it; of tell(), too.
State& state();
void tell(const char* mistake, const void* about, const std::string& sentence);

std::string name_of(Kind kind, const void* object);

}  // namespace verbena::interpose::strict_mode
