// What a program is told of a device and its port, by asynchronous events, when it changes (IBA 11.6.3).
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace verbena::verbs {

struct PortView {
    bool present = false;  // the device
    bool active = false;
    std::uint64_t gid_generation = 0;
    std::uint32_t speed = 0;  // Mbit/s

    bool operator==(const PortView&) const = default;
};

// Of release 62 on.
inline constexpr auto kEventDeviceSpeedChange = static_cast<ibv_event_type>(20);

// push(ibv_event_type) for each event between the two. A port that comes up has whatever speed it has: that
// is PORT_ACTIVE.
template <class Push>
void events_between(const PortView& before, const PortView& now, Push&& push) {
    if (!now.present) return push(IBV_EVENT_DEVICE_FATAL);
    if (now.gid_generation != before.gid_generation) push(IBV_EVENT_GID_CHANGE);
    if (now.active != before.active)
        push(now.active ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
    else if (now.active && now.speed != before.speed)
        push(kEventDeviceSpeedChange);
}

}  // namespace verbena::verbs
