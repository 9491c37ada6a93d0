#include "cm/near_miss.h"

#include "cm/text.h"

namespace verbena::cm {

std::string near_misses(const std::map<IdNumber, Id>& ids, PortSpace space, const Endpoint& destination) {
    std::string on_port, elsewhere;
    for (const auto& [number, id] : ids) {
        if (!id.has_port) continue;
        bool listens = id.state == IdState::listen;
        std::string& text = id.local.port == destination.port ? on_port : elsewhere;
        if (&text == &elsewhere && !listens) continue;
        if (!text.empty()) text += ", ";
        text += to_string(id.local);
        if (id.port_space != space) text += std::string(" in ") + to_string(id.port_space);
        if (!listens) text += " is bound but does not listen";
        if (id.local.is_any() && id.family_only && id.local.family != destination.family)
            text += " takes its own address family only";
    }
    if (!on_port.empty()) return "; on that port: " + on_port;
    if (!elsewhere.empty()) return "; this host listens on " + elsewhere;
    return "; this host has no listener";
}

}  // namespace verbena::cm
