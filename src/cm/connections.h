// All connections of a host and the protocol between them and their peers: what Linux's ib_cm is. It sends
// and receives CM messages, repeats them, answers duplicates, keeps timewait and finds stale connections; it
// knows nothing of addresses' meaning, ports or events' readers: that is `ConnectionUser`.
//
//   handshake.cpp   REQ, REP, RTU
//   refusal.cpp     MRA, REJ, LAP
//   disconnect.cpp  DREQ, DREP, timewait, destruction
//   connections.cpp tables, timers, dispatch
//
// Where it does more than Linux, so that one lost message never leaves a peer in the dark (each is allowed by
// IBA 12.9, and a Linux peer understands it):
//   - a REJ is repeated when the refused REQ or REP is repeated, for kAnswerMemory;
//   - the DREQ of a destroyed id is repeated, kOrphanRetries times, until its DREP;
//   - a REP that nobody waits for is answered by REJ (invalid communication id);
//   - a DREQ that crosses our own is answered at once;
//   - a repeated REQ gets the REP again at once, not only when the REP's own timer falls due.
//
// Not thread-safe. Time is an argument. The environment must not call back from send_mad.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>

#include "cm/connection.h"
#include "cm/manager.h"
#include "cm/timers.h"

namespace verbena::cm {

inline constexpr Duration kAnswerMemory = 20 * kSecond;
inline constexpr std::size_t kMaxAnswers = 4096;  // remembered at once; beyond them duplicates go unanswered
inline constexpr std::uint8_t kOrphanRetries = 3;
inline constexpr Duration kMinResponseTime = 10 * kMillisecond;  // a peer's exponent may be 0
inline constexpr std::uint8_t kMaxTimewaitExponent = 22;         // 17 s, whatever the peer's REQ says

class ConnectionUser {
   public:
    enum class Verdict { accepted, rejected, dropped };

    virtual ~ConnectionUser() = default;

    // A REQ that is no duplicate and not stale. `accepted`: an id was made and told; connection.owner, route
    // and local_guid are set. `rejected`: REJ `reason` is sent. `dropped`: nothing is sent, the peer repeats.
    virtual Verdict connection_requested(Connection& connection, const wire::Req& req,
                                         std::uint32_t attribute_modifier, const wire::Path& sender_view,
                                         wire::RejReason& reason) = 0;

    virtual void connection_changed(const Connection& connection, const ConnectionEvent& event) = 0;
};

// What a REQ needs besides the connection's own numbers.
struct ConnectionRequest {
    IdNumber owner = 0;
    Route route;
    std::uint64_t service_id = 0;
    std::uint64_t local_guid = 0;
    ConnectParameters parameters;  // the private data in it is not looked at
    std::uint32_t receive_psn = 0;
    std::array<std::uint8_t, 92> private_data{};
};

class Connections {
   public:
    Connections(Environment& environment, ConnectionUser& user);

    // --- what ids do. The numbers are local communication ids. 0, or EINVAL in the wrong state.
    std::uint32_t request(const ConnectionRequest& request, Time now);  // sends REQ
    int reply(std::uint32_t id, const ConnectParameters& parameters, std::uint32_t receive_psn, Time now);
    int ready_to_use(std::uint32_t id);
    int reject(std::uint32_t id, wire::RejReason reason, std::span<const std::uint8_t> private_data,
               Time now);
    int disconnect(std::uint32_t id, Time now);  // DREQ, or DREP if the peer asked first
    int establish(std::uint32_t id);             // as if the RTU had come; EISCONN if it has
    void destroy(std::uint32_t id, Time now);    // the owner is gone: says so to the peer

    const Connection* find(std::uint32_t id) const;
    // Whether this is a repetition of a REQ.
    bool knows(const wire::Req& req) const {
        return by_remote_id_.contains({req.local_ca_guid, req.local_comm_id});
    }
    // The connection that waits for its RTU on this QP, or nullptr.
    const Connection* awaiting_rtu(std::uint32_t local_qpn) const;

    // --- what peers do. Messages that are not ours (SIDR) are not taken.
    bool receive(const wire::MadHeader& header, wire::CmConstBytes message, const wire::Path& sender_view,
                 std::uint32_t source_qp, Time now);

    Time next_deadline() const { return timers_.next(); }
    void advance(Time now);

    // A number that no connection has, not 0. SIDR's request ids come from the same counter.
    std::uint32_t new_comm_id();

    std::size_t size() const { return connections_.size() - answers_; }
    std::size_t orphans() const { return orphans_; }  // in timewait or waiting for a DREP, without an id

   private:
    // Where a MAD came from and goes back to.
    struct Sender {
        std::uint64_t transaction_id;
        const wire::Path& view;
        std::uint32_t qp;
    };
    struct PeerKey {
        std::uint64_t guid;    // the peer's CA's
        std::uint32_t number;  // its comm id or QPN

        friend bool operator==(const PeerKey&, const PeerKey&) = default;
    };
    struct PeerHash {
        std::size_t operator()(const PeerKey& key) const {
            return std::hash<std::uint64_t>()(key.guid * 31 + key.number);
        }
    };
    // Many are in timewait when connections come and go quickly.
    using ByPeer = std::unordered_map<PeerKey, std::uint32_t, PeerHash>;  // local comm ids

    // connections.cpp
    Connection& add(std::uint32_t local_comm_id);
    Connection* find_mutable(std::uint32_t id);
    Connection* find_pair(std::uint32_t local_comm_id, std::uint32_t remote_comm_id);
    Connection* find_by_peer(const ByPeer& index, PeerKey key);
    int state_for_coverage(wire::CmAttribute attribute, wire::CmConstBytes message);
    void send(const Connection& connection, const Mad& mad);
    void send_to(const Sender& sender, const Mad& mad);
    void repeat(Connection& connection, Time now);  // starts the repetition of connection.message
    void stop_repeating(Connection& connection) { timers_.cancel(connection.local_comm_id); }
    void forget_peer(Connection& connection);
    void forget_qp(Connection& connection);
    void forget_waiting(Connection& connection);
    void erase(Connection& connection);
    void tell(const Connection& connection, EventType type, std::int32_t status, Time quiet_until = 0);
    void tell_end(const Connection& connection, std::int32_t status, Time now) {
        tell(connection, EventType::disconnected, status, now + timewait(connection));
    }
    void timed_out(Connection& connection, Time now);

    // handshake.cpp
    void on_req(const wire::Req& req, const Sender& sender, std::uint32_t attribute_modifier, Time now);
    void on_duplicate_req(Connection& connection, const wire::Req& req, const Sender& sender);
    void on_rep(const wire::Rep& rep, const Sender& sender, std::uint32_t attribute_modifier, Time now);
    void on_unexpected_rep(Connection* connection, const wire::Rep& rep, const Sender& sender);
    void on_rtu(const wire::Rtu& rtu);

    // refusal.cpp
    void on_mra(const wire::Mra& mra, Time now);
    void on_rej(const wire::Rej& rej, Time now);
    void on_lap(const wire::Lap& lap, const Sender& sender);
    void send_rtu(const Connection& connection);
    void send_mra(const Connection& connection, wire::CmAnswered answered);
    void refuse(const Sender& sender, std::uint32_t local_comm_id, std::uint32_t remote_comm_id,
                wire::CmAnswered answered, wire::RejReason reason);
    void replace_stale(Connection& old, Time now);
    Mad make_rej(const Connection& connection, wire::RejReason reason,
                 std::span<const std::uint8_t> private_data);

    // disconnect.cpp
    void on_dreq(const wire::Dreq& dreq, const Sender& sender, Time now);
    void on_drep(const wire::Drep& drep, Time now);
    void send_dreq(Connection& connection, Time now);
    void send_drep(const Connection& connection);
    void end(Connection& connection);  // idle; its numbers may be used again
    void enter_timewait(Connection& connection, Time now);
    void orphan(Connection& connection, Time now);
    static Duration timewait(const Connection& connection);

    Environment& environment_;
    ConnectionUser& user_;
    std::unordered_map<std::uint32_t, Connection> connections_;     // by local comm id
    ByPeer by_remote_id_;                                           // duplicates of a REQ
    ByPeer by_remote_qp_;                                           // stale connections
    std::unordered_map<std::uint32_t, std::uint32_t> by_local_qp_;  // those in rep_sent or mra_rep_received
    Timers timers_;                                                 // by local comm id
    std::uint32_t last_comm_id_;
    std::size_t answers_ = 0;  // connections in state closed
    std::size_t orphans_ = 0;
};

}  // namespace verbena::cm
