// Connections that another program made, and that are not settled yet (fork.h): this one inherited them by
// exec(), or got them by a message. The mark of the handshake, which the one that connected takes off when it
// knows what becomes of the connection, tells them from others.
#include <sys/socket.h>

#include <cerrno>
#include <memory>

#include "rspreload/config.h"
#include "rspreload/entries.h"
#include "rspreload/fork.h"
#include "rspreload/mark.h"
#include "rspreload/real.h"

namespace verbena::rspreload {
namespace {

constexpr int kMostInherited = 256;  // by number; programs are given low ones

bool is_connected(int fd) {
    sockaddr_storage peer;
    socklen_t size = sizeof peer;
    return real().getpeername(fd, generic(peer), &size) == 0;
}

[[gnu::constructor]] void adopt_inherited() {
    if (!fork_support()) return;
    for (int fd = 0; fd < kMostInherited; fd++) adopt(fd);
}

}  // namespace

void adopt(int fd) {
    if (!fork_support() || find(fd)) return;
    const int before = errno;
    if (option_of(fd, SOL_SOCKET, SO_TYPE) == SOCK_STREAM && is_connected(fd)) {
        auto entry = std::make_unique<Entry>();
        entry->domain = option_of(fd, SOL_SOCKET, SO_DOMAIN);
        entry->type = SOCK_STREAM;
        entry->state = State::fork_active;
        entry->deadline = milliseconds_now() + kPatience;
        if (wanted(entry->domain, entry->type, option_of(fd, SOL_SOCKET, SO_PROTOCOL)) &&
            has_mark(fd, *entry) && insert(fd, entry.get()))
            static_cast<void>(entry.release());
    }
    errno = before;
}

}  // namespace verbena::rspreload
