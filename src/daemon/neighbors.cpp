#include "daemon/neighbors.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/descriptor.h"
#include "base/reason.h"
#include "base/socket_address.h"

namespace verbena::daemon {
namespace {

constexpr std::uint16_t kDiscardPort = 9;
constexpr Duration kFirstCheck = kMillisecond;
constexpr Duration kLongestInterval = 50 * kMillisecond;
constexpr Duration kAskAgain = 250 * kMillisecond;

}  // namespace

int send_probe(const Gid& destination, std::uint32_t interface_index) {
    const int one = 1;
    Descriptor fd(
        socket(destination.is_ipv4() ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) return errno;
    if (destination.is_ipv4())
        setsockopt(fd.get(), IPPROTO_IP, IP_TTL, &one, sizeof one);
    else
        setsockopt(fd.get(), IPPROTO_IPV6, IPV6_UNICAST_HOPS, &one, sizeof one);
    const SocketAddress to(destination, kDiscardPort, interface_index);
    return sendto(fd.get(), "", 0, 0, to.get(), to.size()) < 0 ? errno : 0;
}

Neighbors::Neighbors(const Devices& devices, Kernel& kernel, Answer answer, Wanted wanted, Trigger trigger)
    : devices_(devices),
      kernel_(kernel),
      answer_(std::move(answer)),
      wanted_(std::move(wanted)),
      trigger_(std::move(trigger)) {}

int Neighbors::resolve(const cm::Route& route, std::uint64_t token, Time now) {
    const Gid& destination = route.destination_gid;
    if (destination.is_multicast() || devices_.is_own(destination) ||
        (destination.is_ipv4() && destination.bytes[12] == 127)) {
        answer_(token, 0);
        return 0;
    }
    KernelRoute found;
    if (int error = kernel_.route(destination, route.source_gid,
                                  destination.is_link_local() ? route.interface_index : 0, found))
        return fail(error, "no route to %s: %s", to_string(destination).c_str(), std::strerror(error));
    const Interface* interface = devices_.interface(found.interface_index);
    if ((interface && !interface->resolves) ||
        kernel_.neighbor(found.next_hop, found.interface_index) == NeighborState::reachable) {
        answer_(token, 0);
        return 0;
    }
    if (int error = trigger_(destination, found.interface_index))
        return fail(error, "asking for the neighbour of %s: %s", to_string(destination).c_str(),
                    std::strerror(error));
    pending_.push_back({token, destination, found.next_hop, found.interface_index, now + kAskAgain});
    interval_ = kFirstCheck;
    next_check_ = now + interval_;
    return 0;
}

void Neighbors::check(Time now) {
    interval_ = std::min(2 * interval_, kLongestInterval);
    next_check_ = now + interval_;
    for (std::size_t i = 0; i < pending_.size();) {
        const Pending each = pending_[i];
        const NeighborState state = kernel_.neighbor(each.next_hop, each.interface_index);
        const bool given_up = state == NeighborState::failed;
        int error = 0;
        if ((given_up || state == NeighborState::unknown) && now >= each.ask_again) {
            if (given_up)
                log(LogLevel::info, "no answer from %s, asking again", to_string(each.next_hop).c_str());
            error = trigger_(each.destination, each.interface_index);
            pending_[i].ask_again = now + kAskAgain;
        }
        const bool decided = error != 0 || state == NeighborState::reachable;
        if (!decided && wanted_(each.token)) {
            i++;
            continue;
        }
        pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
        if (decided) answer_(each.token, error);
    }
}

}  // namespace verbena::daemon
