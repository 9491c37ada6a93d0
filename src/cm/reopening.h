// Requests for a port whose listener has just gone.
//
// Programs close a listener after the first connection and listen on the same port again for the next one
// (perftest -R does, and tells its peer to connect before it listens). Over a kernel the peer takes longer to
// resolve its address than the server to listen; over a fast connection manager it would be refused with
// reason 8. So a request for a port whose listener was destroyed less than kMemory ago waits, kPatience at
// most, for the next one; IBA 12.9.8 leaves the time of an answer to us, up to the peer's response timeout.
// Every other port refuses at once, also that of a program that has ended.
//
// Not thread-safe. Time is an argument.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <span>

#include "base/time.h"
#include "wire/path.h"

namespace verbena::cm {

class Reopening {
   public:
    static constexpr Duration kMemory = 3 * kSecond;
    static constexpr Duration kPatience = 200 * kMillisecond;
    static constexpr std::size_t kMaxPorts = 1024;
    static constexpr std::size_t kMaxRequests = 64;

    struct Request {
        std::uint64_t service_id = 0;
        Time came = 0;
        wire::Path sender_view;
        std::uint32_t source_qp = 0;
        std::array<std::uint8_t, 256> mad{};
    };

    void listener_gone(std::uint64_t service_id, Time now);
    void listener_came(std::uint64_t service_id);

    // Whether a request to this service, which nobody listens for, shall wait. Forgets old ports.
    bool expects(std::uint64_t service_id, Time now);
    // False if too many wait already.
    bool keep(std::uint64_t service_id, const wire::Path& sender_view, std::uint32_t source_qp,
              std::span<const std::uint8_t, 256> mad, Time now);

    Time next_deadline() const;
    // Takes one that has waited long enough, in the order of arrival; false if there is none.
    bool take_due(Time now, Request& request);
    // The same, of those that wait for this service.
    bool take_waiting(std::uint64_t service_id, Request& request);

   private:
    template <class Matches>
    bool take(Matches matches, Request& request);

    std::map<std::uint64_t, Time> closed_;  // service id: when
    std::deque<Request> waiting_;
};

}  // namespace verbena::cm
