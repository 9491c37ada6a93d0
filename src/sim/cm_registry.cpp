// The two ends of each connection, compared.
#include "sim/cm_registry.h"

#include <algorithm>

#include "sim/cm_host.h"
#include "wire/cm_messages.h"

namespace verbena::sim {
namespace {

using cm::EventType;
using Role = CmTrack::Role;
using wire::RejReason;

// 16 transmissions 6.4 s apart; or, when the peer asks for time by MRA, 70 s apart.
constexpr Duration kLongestHandshake = 16 * 71 * kSecond;
constexpr Duration kLongestTimewait = 20 * kSecond;

}  // namespace

CmTrack* CmRegistry::client(std::uint64_t key) {
    const auto found = clients_.find(key);
    return found == clients_.end() ? nullptr : found->second;
}

CmTrack* CmRegistry::server(std::uint64_t key) {
    const auto found = servers_.find(key);
    return found == servers_.end() ? nullptr : found->second;
}

bool CmRegistry::listened(const CmTrack& client, Time from, Time to) const {
    const unsigned host = Network::host_of(client.to.address);
    for (const CmTrack& t : tracks_)
        if (t.role == Role::listener && t.port == client.to.port && t.space == client.space &&
            t.host->number() == host && t.born <= from && t.destroyed_at >= to)
            return true;
    return false;
}

bool CmRegistry::used_before(const CmTrack& track) const {
    return std::ranges::any_of(tracks_, [&](const CmTrack& t) {
        return &t != &track && t.host == track.host && t.qp == track.qp && t.born <= track.destroyed_at;
    });
}

void CmRegistry::violation(const CmTrack& track, const char* text) {
    world_.verdict.violation(world_.now(), "host %u, id %u (born at %.3f s): %s", track.host->number(),
                             track.id, static_cast<double>(track.born) / kSecond, text);
}

void CmRegistry::judge(bool calm) {
    for (const CmTrack& track : tracks_) {
        if (track.host->dead()) continue;
        if (track.role == Role::client) judge_client(track, calm);
        if (track.role == Role::server) judge_server(track, calm);
    }
}

void CmRegistry::judge_client(const CmTrack& client, bool calm) {
    if (!client.connect_called) return;
    const Time end = client.destroyed_at;
    const bool answered = client.count(EventType::connect_response) > 0 || client.terminated() ||
                          client.count(EventType::established) > 0;
    if (!answered && end - client.connected_at > kLongestHandshake)
        violation(client, "connect was never answered");
    if (client.disconnect_called && client.connected() && !client.terminated() &&
        end - client.connected_at > kLongestHandshake)
        violation(client, "disconnect was never answered");
    if (client.count(EventType::disconnected) && client.disconnect_called &&
        end - client.over_at > kLongestTimewait + 60 * kSecond && client.count(EventType::timewait_exit) == 0)
        violation(client, "TIMEWAIT_EXIT never came");

    const CmTrack* server = this->server(client.key);
    if (client.count(EventType::rejected)) {
        const auto reason = static_cast<RejReason>(client.reason);
        switch (reason) {
            case RejReason::invalid_service_id:
                if (listened(client, client.connected_at, client.over_at))
                    violation(client, "REJECTED (no such service), but somebody listened all the time");
                break;
            case RejReason::consumer_reject:
                break;
            case RejReason::timeout:
                if (server && !server->destroyed && server->count(EventType::unreachable) == 0)
                    violation(client, "REJECTED (timeout), but the server still waits");
                break;
            case RejReason::stale_connection:
                // Who has not heard of the end of a QP's last connection still believes in that one.
                if (!used_before(client) && !(server && used_before(*server)))
                    violation(client, "REJECTED (stale connection), but both QPs are new");
                break;
            case RejReason::invalid_comm_id:
                if (calm) violation(client, "REJECTED (invalid communication id) without any loss");
                break;
            default:
                violation(client, "REJECTED for a reason that nobody has");
        }
        if (reason == RejReason::consumer_reject && server && server->connected() && !server->refused &&
            !server->destroyed)
            violation(client, "REJECTED by a server that believes in the connection");
    }
    if (calm && client.count(EventType::disconnected) && client.reason != 0)
        violation(client, "DISCONNECTED with an error, but nothing was lost");
    if (calm && client.count(EventType::unreachable) && server && (server->replied || server->refused) &&
        !client.datagram())
        violation(client, "UNREACHABLE, but the server answered and nothing was lost");
    if (client.datagram() && client.count(EventType::established) && (!server || !server->replied))
        violation(client, "ESTABLISHED, but no server accepted");
}

void CmRegistry::judge_server(const CmTrack& server, bool calm) {
    const CmTrack* client = this->client(server.key);
    if (!client || server.datagram()) return;
    const Time end = server.destroyed_at;
    if (server.count(EventType::established) && !client->confirmed)
        violation(server, "ESTABLISHED, but the client never confirmed");
    if (!server.replied) return;
    const bool heard = server.count(EventType::established) > 0 || server.terminated();
    if (!heard && !server.refused && end - server.born > 2 * kLongestHandshake)
        violation(server, "accepted, and never heard of the connection again");
    if (server.disconnect_called && server.connected() && !server.terminated() &&
        end - server.born > 2 * kLongestHandshake)
        violation(server, "disconnect was never answered");
    if (calm && client->confirmed && !heard && end - client->over_at > kSecond &&
        end - client->connected_at > 100 * kSecond)
        violation(server, "the client is connected, the server never heard");
}

}  // namespace verbena::sim
