// What a program of the connection manager may be told, and what private data it must find.
#include "cm/messages.h"
#include "sim/cm_program.h"
#include "sim/pattern.h"

namespace verbena::sim {
namespace {

using cm::EventType;
using Role = CmTrack::Role;

bool terminal(EventType type) {
    return type == EventType::rejected || type == EventType::unreachable || type == EventType::disconnected;
}

}  // namespace

// What may follow what.
void CmProgram::check_event(CmTrack& track, const cm::Event& event) {
    const auto type = static_cast<std::size_t>(event.type);
    if (track.count(EventType::timewait_exit) > 0) violation(track, "event %zu after TIMEWAIT_EXIT", type);
    const bool wrong_role =
        track.role == Role::listener ||
        (track.role == Role::server && (event.type < EventType::unreachable)) ||
        (track.role == Role::client && !track.datagram() && event.type == EventType::established);
    if (wrong_role) violation(track, "event %zu, which its role does not get", type);
    if (track.terminated() && event.type != EventType::timewait_exit)
        violation(track, "event %zu after the end", type);
    if (event.type != EventType::addr_error && track.events[type] > 0)
        violation(track, "event %zu twice", type);
    switch (event.type) {
        case EventType::connect_response:
            if (!track.connect_called) violation(track, "a reply without a request");
            break;
        case EventType::established:
            if (track.role == Role::server && !track.replied && !world_.now())
                violation(track, "ESTABLISHED unasked");
            break;
        case EventType::disconnected:
            if (track.role == Role::client && !track.confirmed)
                violation(track, "DISCONNECTED, but never connected");
            break;
        case EventType::timewait_exit:
            if (track.count(EventType::disconnected) == 0)
                violation(track, "TIMEWAIT_EXIT, but not disconnected");
            break;
        default:
            break;
    }
    track.events[type]++;
    if (!terminal(event.type)) return;
    track.reason = event.status;
    track.over_at = world_.now();
}

void CmProgram::check_data(const cm::Event& event, std::uint64_t key, std::size_t length, const char* what) {
    const auto data = std::span<const std::uint8_t>(event.connection.private_data).first(length);
    if (matching_prefix(key, 0, data) != length)
        world_.verdict.violation(world_.now(), "host %u: the private data of a %s is wrong", host_.number(),
                                 what);
}

}  // namespace verbena::sim
