#include "base/own_user.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>

#include "base/no_cancellation.h"

namespace verbena {
namespace {

constexpr uid_t kOverflowUser = 65534;

// Whether every user of the machine is mapped to itself here, so that no user is shown as the overflow user.
bool all_users_are_mapped() {
    const NoCancellation whole;
    int fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    char text[128] = {};
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) return false;
    unsigned inside = 1, outside = 1, count = 0;
    return std::sscanf(text, "%u %u %u", &inside, &outside, &count) == 3 && inside == 0 && outside == 0 &&
           count == UINT32_MAX;
}

}  // namespace

int peer_of(int fd, PeerProcess& peer) {
    ucred credentials{};
    socklen_t size = sizeof credentials;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return errno;
    peer = {credentials.pid, credentials.uid};
    return 0;
}

bool is_own_user(uid_t user) {
    return user == geteuid() && (user != kOverflowUser || all_users_are_mapped());
}

}  // namespace verbena
