#include "daemon/environment.h"

#include <sys/random.h>

#include <array>

#include "daemon/clock.h"
#include "daemon/proc.h"

namespace verbena::daemon {
namespace {

std::pair<std::uint16_t, std::uint16_t> read_ephemeral_ports() {
    std::uint32_t low = 0, high = 0;
    if (read_setting("/proc/sys/net/ipv4/ip_local_port_range", low, &high) && low >= 1 && low <= high &&
        high <= 65535)
        return {static_cast<std::uint16_t>(low), static_cast<std::uint16_t>(high)};
    return {32768, 60999};  // the kernel's own default
}

}  // namespace

std::uint32_t random32() {
    // Up to 256 bytes come at once or not at all; only before the machine's first entropy does this wait.
    static std::array<std::uint32_t, 64> numbers;
    static std::size_t left = 0;
    if (left == 0) {
        while (getrandom(numbers.data(), sizeof numbers, 0) != static_cast<ssize_t>(sizeof numbers)) {
        }
        left = numbers.size();
    }
    return numbers[--left];
}

void Environment::send_mad(const wire::Path& path, std::uint32_t destination_qp,
                           std::span<const std::uint8_t, 256> mad) {
    if (const host::Device* device = parts_.devices.find(path.source).device)
        parts_.totals.mad_sent(device->index);
    parts_.way_out.send(path, destination_qp, mad, now());
}

void Environment::deliver(cm::FileNumber file, const cm::Event& event) { parts_.files.deliver(file, event); }

int Environment::find_local(const cm::Endpoint& local, cm::Route& route) {
    return parts_.routes.find_local(local, route);
}

int Environment::find_route(const cm::Endpoint& source, const cm::Endpoint& remote, cm::Route& route,
                            Gid& source_address) {
    return parts_.routes.find_route(source, remote, route, source_address);
}

int Environment::resolve_neighbor(const cm::Route& route, std::uint64_t token) {
    return parts_.neighbors.resolve(route, token, now());
}

std::uint64_t Environment::node_guid(std::uint32_t device) {
    const host::Device* found = parts_.devices.by_index(device);
    return found ? found->node_guid : 0;
}

std::pair<std::uint16_t, std::uint16_t> Environment::ephemeral_ports() {
    constexpr Duration kGoodFor = 100 * kMillisecond;  // many connections are made in that time
    if (const Time at = now(); at >= ports_read_at_ + kGoodFor) {
        ports_ = read_ephemeral_ports();
        ports_read_at_ = at;
    }
    return ports_;
}

void Environment::quarantine_qp(std::uint32_t qp_number, Time until) {
    parts_.queues.quarantine(qp_number, until);
}

}  // namespace verbena::daemon
