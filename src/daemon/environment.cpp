#include "daemon/environment.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/descriptor.h"
#include "base/reason.h"
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

struct RandomNumbers {
    std::array<std::uint32_t, 64> numbers;
    std::size_t left = 0;
    Descriptor device;  // where a filter forbids the system call; open, for files may be short later

    bool fill() {
        // Up to 256 bytes come at once or not at all; only before the machine's first entropy does this wait.
        for (;;) {
            const ssize_t size = device ? read(device.get(), numbers.data(), sizeof numbers)
                                        : getrandom(numbers.data(), sizeof numbers, 0);
            if (size == static_cast<ssize_t>(sizeof numbers)) break;
            if (size >= 0 || errno == EINTR) continue;
            if (device) return false;
            device.reset(open("/dev/urandom", O_RDONLY | O_CLOEXEC));
            if (!device) return false;
        }
        left = numbers.size();
        return true;
    }
} random_numbers;

}  // namespace

int open_random() {
    if (random_numbers.left > 0 || random_numbers.fill()) return 0;
    return fail(errno, "no random numbers, neither by getrandom() nor from /dev/urandom: %s",
                std::strerror(errno));
}

std::uint32_t random32() {
    if (random_numbers.left == 0 && !random_numbers.fill()) std::abort();  // where it worked before
    return random_numbers.numbers[--random_numbers.left];
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
