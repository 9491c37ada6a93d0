// Requests that come a moment too early, and wait for their listener instead of being refused or dropped.
//
// 1. Its port's listener has just gone. Programs close a listener after the first connection and listen on
//    the same port again for the next one (perftest -R does, and tells its peer to connect before it
//    listens). Over a kernel the peer takes longer to resolve its address than the server to listen; over a
//    fast connection manager it would be refused with reason 8. So for kMemory after a listener was
//    destroyed, a request for its port waits kReopening at most. Every other port refuses at once, also that
//    of a program that has ended.
// 2. Its port is bound, and nobody listens yet. Programs that let the port be chosen tell the peer the number
//    before they listen (qperf does). The request waits kReopening at most.
// 3. The listener's backlog is full. The peer gets no answer and would repeat the request seconds later;
//    remembered here for that listener, it is served as soon as the program has read one, within kBacklog.
//
// Whoever gives up meanwhile (REJ, reason 4) is forgotten.
//
// IBA 12.9.8 leaves the time of an answer to us, up to the response timeout in the request. Not thread-safe.
// Time is an argument.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>

#include "base/time.h"
#include "cm/types.h"
#include "wire/path.h"

namespace verbena::cm {

class HeldRequests {
   public:
    static constexpr Duration kMemory = 3 * kSecond;
    static constexpr Duration kReopening = 200 * kMillisecond;
    static constexpr Duration kBacklog = 4 * kSecond;
    static constexpr std::size_t kMaxPorts = 1024;
    static constexpr std::size_t kMaxRequests = 4096;

    struct Request {
        std::uint64_t service_id = 0;
        IdNumber listener = 0;  // whose backlog is full; 0: none is there
        Time came = 0;
        Time due = 0;                 // of those for the same listener no later one's is earlier
        std::uint64_t peer_guid = 0;  // of a REQ: whose conversation, and its number there
        std::uint32_t peer_comm_id = 0;
        wire::Path sender_view;
        std::uint32_t source_qp = 0;
        std::array<std::uint8_t, 256> mad{};
    };

    // The service's only one. `for_good`: its program has ended, so what waits is refused at once.
    void listener_gone(std::uint64_t service_id, Time now, bool for_good);
    // One of several: what waits for it is due.
    void listener_gone(std::uint64_t service_id, IdNumber listener, Time now);
    void listener_came(std::uint64_t service_id);
    // Whether a listener of this service has gone a moment ago, and none came since.
    bool expects_listener(std::uint64_t service_id, Time now);

    // Keeps a request, once however often it is repeated. False if too many wait already.
    bool keep(const Request& request);

    // The peer has given up (IBA 12.6.7.2): what it asked for is not wanted any more.
    void withdraw(std::uint64_t peer_guid, std::uint32_t peer_comm_id);

    Time next_deadline() const;
    // Takes one that has waited long enough, of one listener in the order of arrival; false if there is none.
    bool take_due(Time now, Request& request);
    // Takes the oldest that waits for this listener; 0: for whoever comes.
    bool take_waiting(std::uint64_t service_id, IdNumber listener, Request& request);

   private:
    using Target = std::pair<std::uint64_t, IdNumber>;
    using Waiting = std::map<Target, std::deque<Request>>;  // none of them empty
    void take(Waiting::iterator from, Request& request);

    std::map<std::uint64_t, Time> closed_;  // service id: when
    Waiting waiting_;
    std::size_t count_ = 0;
};

}  // namespace verbena::cm
