#include "rsocket/datagram_peer_table.h"

#include <utility>

namespace verbena::rsocket {

bool PeerTable::Order::operator()(const Endpoint& a, const Endpoint& b) const {
    return a.identity() < b.identity();
}

Peer* PeerTable::find(const Endpoint& endpoint, Speaker speaker) {
    const auto found = places_.find(endpoint);
    if (found == places_.end()) return nullptr;
    const auto entry = found->second;
    if (speaker == Speaker::program) {
        known_.splice(known_.begin(), entry->known ? known_ : strangers_, entry);
        entry->known = true;
        limit(known_, kMostKnown);
    } else if (!entry->known) {
        strangers_.splice(strangers_.begin(), strangers_, entry);
    }
    return &entry->peer;
}

Peer& PeerTable::add(const Endpoint& endpoint, Peer peer, Speaker speaker) {
    const bool known = speaker == Speaker::program;
    Entries& entries = known ? known_ : strangers_;
    entries.push_front({endpoint, std::move(peer), known});
    places_[endpoint] = entries.begin();
    limit(entries, known ? kMostKnown : kMostStrangers);
    return entries.front().peer;
}

void PeerTable::limit(Entries& entries, std::size_t most) {
    if (entries.size() <= most) return;
    places_.erase(entries.back().endpoint);
    entries.pop_back();
}

}  // namespace verbena::rsocket
