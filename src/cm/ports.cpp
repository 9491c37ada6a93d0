#include "cm/ports.h"

#include <cerrno>

#include "base/reason.h"
#include "cm/text.h"

namespace verbena::cm {
namespace {

bool same_address(const Endpoint& a, const Endpoint& b) {
    return a.family == b.family && a.address == b.address &&
           (!a.address.is_link_local() || a.scope_id == b.scope_id);
}

}  // namespace

int Ports::check(const Owners& owners, IdNumber owner, const PortClaim& claim, bool reuse) {
    for (const auto& [other_id, other] : owners) {
        if (other_id == owner) continue;
        if (reuse && other.reuse && !other.listening) continue;
        if (claim.family_only && other.family_only && claim.local.family != other.local.family) continue;
        if (any_or_loopback(claim.local) || any_or_loopback(other.local))
            return fail(EADDRNOTAVAIL, "%s: id %u holds %s, and one of the two is a wildcard (or loopback)",
                        to_string(claim.local).c_str(), other_id, to_string(other.local).c_str());
        if (same_address(claim.local, other.local))
            return fail(EADDRINUSE, "%s is held by id %u%s", to_string(claim.local).c_str(), other_id,
                        other.listening ? ", which listens" : "");
    }
    return 0;
}

int Ports::claim(PortSpace space, IdNumber owner, const PortClaim& claim) {
    auto found = owners_.find({space, claim.local.port});
    if (found != owners_.end())
        if (int error = check(found->second, owner, claim, claim.reuse)) return error;
    owners_[{space, claim.local.port}][owner] = claim;
    return 0;
}

// True if no owner of the port could be mistaken for this one: another peer port, another own address or
// another peer address, all of them concrete.
bool Ports::unique(const Owners& owners, const PortClaim& claim) {
    for (const auto& [other_id, other] : owners) {
        bool peers_known = claim.remote.family && other.remote.family;
        if (peers_known && claim.remote.port && other.remote.port && claim.remote.port != other.remote.port)
            continue;
        if (!any_or_loopback(claim.local) && !any_or_loopback(other.local) &&
            !same_address(claim.local, other.local))
            continue;
        if (peers_known && !any_or_loopback(claim.remote) && !any_or_loopback(other.remote) &&
            !same_address(claim.remote, other.remote))
            continue;
        return false;
    }
    return true;
}

int Ports::claim_any(PortSpace space, IdNumber owner, PortClaim claim,
                     std::pair<std::uint16_t, std::uint16_t> range, std::uint32_t random,
                     std::uint16_t& port) {
    auto [low, high] = range;
    if (low > high) return fail(EADDRNOTAVAIL, "the range of ephemeral ports %u..%u is empty", low, high);
    std::uint32_t size = std::uint32_t{high} - low + 1;
    for (std::uint32_t i = 0; i < size; i++) {
        auto candidate = static_cast<std::uint16_t>(low + (random % size + i) % size);
        if (candidate == last_chosen_ && size > 1) continue;
        auto found = owners_.find({space, candidate});
        if (found != owners_.end() && !unique(found->second, claim)) continue;
        last_chosen_ = candidate;
        claim.local.port = candidate;
        owners_[{space, candidate}][owner] = claim;
        port = candidate;
        return 0;
    }
    return fail(EADDRNOTAVAIL, "every ephemeral port %u..%u of the port space is held", low, high);
}

int Ports::check_exclusive(PortSpace space, std::uint16_t port, IdNumber owner) {
    auto found = owners_.find({space, port});
    if (found == owners_.end() || found->second.size() < 2) return 0;
    return check(found->second, owner, found->second[owner], false);
}

PortClaim* Ports::find(PortSpace space, std::uint16_t port, IdNumber owner) {
    auto found = owners_.find({space, port});
    if (found == owners_.end()) return nullptr;
    auto claim = found->second.find(owner);
    return claim == found->second.end() ? nullptr : &claim->second;
}

void Ports::release(PortSpace space, std::uint16_t port, IdNumber owner) {
    auto found = owners_.find({space, port});
    if (found == owners_.end()) return;
    found->second.erase(owner);
    if (found->second.empty()) owners_.erase(found);
}

}  // namespace verbena::cm
