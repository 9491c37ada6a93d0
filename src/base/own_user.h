// Whose a process at the other end of a unix socket is.
//
// Thread safety: all calls.
#pragma once

#include <sys/types.h>

namespace verbena {

struct PeerProcess {
    pid_t pid = 0;  // 0: in another pid namespace
    uid_t user = 0;
};
// The process that connected, or that called listen() (SO_PEERCRED). 0 or an errno.
int peer_of(int fd, PeerProcess& peer);

// Whether `user` is this process's own effective user. The kernel shows an unmapped user of another user
// namespace as the overflow user, so inside a user namespace that one equals nobody.
bool is_own_user(uid_t user);

}  // namespace verbena
