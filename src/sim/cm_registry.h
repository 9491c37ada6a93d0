// What all programs of a connection manager run did and saw, so that the two ends of each connection can be
// compared. The ends find each other by a key in the request's private data.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "base/time.h"
#include "cm/types.h"
#include "sim/world.h"

namespace verbena::sim {

class CmHost;

// One id's life as its program sees it.
struct CmTrack {
    enum class Role : std::uint8_t { listener, client, server };

    Role role = Role::client;
    cm::IdNumber id = 0;
    CmHost* host = nullptr;
    cm::PortSpace space = cm::PortSpace::tcp;
    cm::Endpoint to;            // client
    std::uint16_t port = 0;     // listener
    cm::IdNumber listener = 0;  // server
    std::uint64_t key = 0;
    std::uint32_t qp = 0;

    std::array<unsigned, 20> events{};  // delivered, by type
    std::int32_t reason = 0;            // of the terminal event
    bool connect_called = false;
    bool replied = false;    // server: rdma_accept succeeded
    bool refused = false;    // rdma_reject succeeded
    bool confirmed = false;  // client: rdma_accept after the reply succeeded
    bool disconnect_called = false;
    bool destroyed = false;
    bool died = false;  // with its process
    Time born = 0, connected_at = 0, destroyed_at = kNever, over_at = kNever;

    unsigned count(cm::EventType type) const { return events[static_cast<std::size_t>(type)]; }
    bool datagram() const { return space == cm::PortSpace::udp; }
    // A connection that was, or may have been, up at the other side too.
    bool connected() const { return confirmed || count(cm::EventType::established) > 0; }
    bool terminated() const {
        return count(cm::EventType::rejected) + count(cm::EventType::unreachable) +
                   count(cm::EventType::disconnected) >
               0;
    }
};

class CmRegistry {
   public:
    explicit CmRegistry(World& world) : world_(world) {}

    CmTrack& add() { return tracks_.emplace_back(); }
    CmTrack* client(std::uint64_t key);
    CmTrack* only_client() { return clients_.size() == 1 ? clients_.begin()->second : nullptr; }
    void clients_key(std::uint64_t key, CmTrack& track) { clients_[key] = &track; }
    CmTrack* server(std::uint64_t key);
    void servers_key(std::uint64_t key, CmTrack& track) { servers_[key] = &track; }

    // Whether some listener waited for this all the time from `from` to `to`.
    bool listened(const CmTrack& client, Time from, Time to) const;

    // When everything is over. `calm`: the network lost and doubled nothing, and nobody vanished.
    void judge(bool calm);

    bool network_hurts = false;

   private:
    // Whether another connection of its host had the same QP number.
    bool used_before(const CmTrack& track) const;
    void judge_client(const CmTrack& client, bool calm);
    void judge_server(const CmTrack& server, bool calm);
    void violation(const CmTrack& track, const char* text);

    World& world_;
    std::deque<CmTrack> tracks_;
    std::map<std::uint64_t, CmTrack*> clients_, servers_;
};

}  // namespace verbena::sim
