// Service ID resolution (IBA 12.11): how a UD id learns the QP number and Q_Key behind a service. One
// request, one answer; the request is repeated until then. Requests that arrived are pending until the
// program accepts or rejects; an answer is remembered and repeated for a while, since it may have been lost.
//
// Not thread-safe. Time is an argument. The environment must not call back from send_mad.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include "cm/connections.h"
#include "cm/messages.h"
#include "cm/timers.h"

namespace verbena::cm {

class SidrUser {
   public:
    using Verdict = ConnectionUser::Verdict;

    virtual ~SidrUser() = default;

    // A request that is no duplicate. `accepted`: an id was made, `owner` names it, and sidr.answer() will be
    // called with `request`. `rejected`: `status` is sent at once. `dropped`: the peer repeats.
    virtual Verdict service_requested(std::uint32_t request, const wire::SidrReq& req,
                                      const wire::Path& sender_view, wire::SidrStatus& status) = 0;

    // `event.type` is established or unreachable.
    virtual void service_resolved(IdNumber owner, const ConnectionEvent& event) = 0;
};

class Sidr {
   public:
    Sidr(Environment& environment, SidrUser& user, Connections& numbers);

    // Sends SIDR_REQ; the number names the request.
    std::uint32_t request(IdNumber owner, const wire::Path& path, std::uint64_t service_id,
                          const std::array<std::uint8_t, 216>& private_data, Time now);
    void cancel(std::uint32_t request);  // the owner is gone

    // Answers a request that the user accepted; false if it was answered before.
    bool answer(std::uint32_t request, wire::SidrStatus status, std::uint32_t qpn, std::uint32_t qkey,
                std::span<const std::uint8_t> private_data, Time now);

    bool receive(const wire::MadHeader& header, wire::CmConstBytes message, const wire::Path& sender_view,
                 std::uint32_t source_qp, Time now);

    Time next_deadline() const { return timers_.next(); }
    void advance(Time now);
    std::size_t size() const { return asked_.size() + pending_; }

   private:
    struct Asked {  // by us
        IdNumber owner = 0;
        wire::Path path;
        Mad message{};
        std::uint8_t retries_left = kMaxCmRetries;
    };
    struct Served {  // for a peer
        Gid peer;
        std::uint32_t peer_request = 0;
        std::uint64_t transaction_id = 0;
        std::uint64_t service_id = 0;
        wire::Path path;
        std::uint32_t destination_qp = wire::kQp1;
        bool answered = false;
        Mad answer{};
    };
    using PeerKey = std::pair<Gid, std::uint32_t>;

    void on_req(const wire::SidrReq& req, std::uint64_t transaction_id, const wire::Path& sender_view,
                std::uint32_t source_qp, Time now);
    void on_rep(const wire::SidrRep& rep);
    Mad make_rep(const Served& served, wire::SidrStatus status, std::uint32_t qpn, std::uint32_t qkey,
                 std::span<const std::uint8_t> private_data);
    void forget(std::uint32_t number);

    Environment& environment_;
    SidrUser& user_;
    Connections& numbers_;
    std::map<std::uint32_t, Asked> asked_;
    std::map<std::uint32_t, Served> served_;
    std::map<PeerKey, std::uint32_t> by_peer_;
    Timers timers_;  // by either number; they differ
    std::size_t pending_ = 0;
};

}  // namespace verbena::cm
