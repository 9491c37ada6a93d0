#include "cm/messages.h"

namespace verbena::cm {

wire::Path path_back(const wire::Path& sender_view) {
    wire::Path path;
    path.source = sender_view.destination;
    path.destination = sender_view.source;
    path.interface_index = sender_view.interface_index;
    path.udp_source_port = wire::udp_source_port_for_ud(wire::kQp1);
    path.traffic_class = sender_view.traffic_class;
    return path;
}

wire::Path path_along(const Route& route) {
    wire::Path path;
    path.source = route.source_gid;
    path.destination = route.destination_gid;
    path.interface_index = route.interface_index;
    path.udp_source_port = wire::udp_source_port_for_ud(wire::kQp1);
    path.traffic_class = route.traffic_class;
    path.hop_limit = route.hop_limit;
    return path;
}

std::uint8_t ack_timeout(std::uint8_t ack_delay, std::uint8_t life_time) {
    // A sum of powers of two, rounded up to a power of two: the greater exponent, one more if both are near.
    unsigned timeout = life_time + 1u;
    if (timeout >= ack_delay)
        timeout += ack_delay >= timeout - 1;
    else
        timeout = ack_delay + (timeout >= ack_delay - 1u);
    return static_cast<std::uint8_t>(std::min(timeout, 31u));
}

void set_private_data(ConnectParameters& parameters, std::span<const std::uint8_t> from) {
    std::size_t length = std::min(from.size(), kMaxPrivateData);
    std::copy_n(from.begin(), length, parameters.private_data.begin());
    parameters.private_data_length = static_cast<std::uint8_t>(length);
}

}  // namespace verbena::cm
