#include "rspreload/mark.h"

#include <netinet/in.h>

#include <cstring>
#include <utility>

#include "rspreload/entries.h"
#include "rspreload/real.h"

namespace verbena::rspreload {
namespace {

constexpr int kMark =
    0xac;  // DSCP 43, of the pool for experiments and local use; the kernel keeps ECN's bits

struct Protocol {
    int level, option, ask, answers;
};
// IPV6_2292PKTOPTIONS stands in no header that fits beside the C library's.
constexpr Protocol kIpv4{IPPROTO_IP, IP_TOS, IP_RECVTOS, IP_PKTOPTIONS};
constexpr Protocol kIpv6{IPPROTO_IPV6, IPV6_TCLASS, IPV6_RECVTCLASS, 6};

void set(int fd, int level, int option, int value) {
    real().setsockopt(fd, level, option, &value, sizeof value);
}

// The kernel derives a priority from the service; the program's stays.
void set_service(int fd, const Protocol& protocol, int value) {
    const int priority = option_of(fd, SOL_SOCKET, SO_PRIORITY);
    set(fd, protocol.level, protocol.option, value);
    if (priority >= 0 && option_of(fd, SOL_SOCKET, SO_PRIORITY) != priority)
        set(fd, SOL_SOCKET, SO_PRIORITY, priority);
}

bool is_marked(int fd, const Protocol& protocol) {
    const int asked = option_of(fd, protocol.level, protocol.ask);
    set(fd, protocol.level, protocol.ask, 1);
    alignas(cmsghdr) char answers[256];
    socklen_t size = sizeof answers;
    const bool told = real().getsockopt(fd, protocol.level, protocol.answers, answers, &size) == 0;
    if (asked == 0) set(fd, protocol.level, protocol.ask, 0);
    if (!told) return false;
    msghdr all{};
    all.msg_control = answers;
    all.msg_controllen = size;
    for (const cmsghdr* each = CMSG_FIRSTHDR(&all); each;
         each = CMSG_NXTHDR(&all, const_cast<cmsghdr*>(each)))
        if (each->cmsg_level == protocol.level && each->cmsg_type == protocol.option &&
            (*CMSG_DATA(each) & ~3) == kMark)
            return true;
    return false;
}

}  // namespace

// A socket of IPv6 may speak IPv4.
void set_mark(int fd, Entry& entry) {
    entry.services[0] = option_of(fd, kIpv4.level, kIpv4.option);
    set_service(fd, kIpv4, kMark);
    if (entry.domain != AF_INET6) return;
    entry.services[1] = option_of(fd, kIpv6.level, kIpv6.option);
    set_service(fd, kIpv6, kMark);
}

void clear_mark(int fd, Entry& entry) {
    const Protocol protocols[] = {kIpv4, kIpv6};
    for (int i = 0; i < 2; i++) {
        const int before = std::exchange(entry.services[i], -1);
        // The program may have set one of its own meanwhile.
        if (before < 0 || (option_of(fd, protocols[i].level, protocols[i].option) & ~3) != kMark) continue;
        set_service(fd, protocols[i], before);
    }
}

bool is_marked(int fd, int domain) {
    return is_marked(fd, kIpv4) || (domain == AF_INET6 && is_marked(fd, kIpv6));
}

// What the program had set before is not known here.
bool has_mark(int fd, Entry& entry) {
    if ((option_of(fd, kIpv4.level, kIpv4.option) & ~3) != kMark) return false;
    entry.services[0] = 0;
    if (entry.domain == AF_INET6) entry.services[1] = 0;
    return true;
}

}  // namespace verbena::rspreload
