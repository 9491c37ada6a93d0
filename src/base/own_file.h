// Descriptors of our own in somebody else's program. Programs close descriptors that they do not know
// (daemons do), and open others, which get low numbers: so ours have high ones, and are looked at before they
// are used for what would do harm elsewhere.
//
// Thread safety: all calls.
#pragma once

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/uncancelled.h"

namespace verbena {

// The same file under a high number if there is one free, and the low one closed; no cancellation point.
inline int out_of_the_way(int low) {
    constexpr int kFirst = 512;
    const int high = fcntl(low, F_DUPFD_CLOEXEC, kFirst);
    if (high < 0) return low;
    uncancelled::close(low);
    return high;
}

// Makes the process's table of descriptors as long as those numbers need. Early, while the process has one
// thread: threads share it, and the kernel lets whoever makes it longer stand still for 5 to 40 ms then.
// (Thread sanitizers shall see it opened no more than closed.)
inline void make_room_out_of_the_way() {
    const auto low = static_cast<int>(syscall(SYS_eventfd2, 0, EFD_CLOEXEC));
    if (low >= 0) uncancelled::close(out_of_the_way(low));
}

struct FileIdentity {
    dev_t device = 0;
    ino_t inode = 0;

    // All zero: it is none.
    static FileIdentity of(int fd) {
        struct stat status {};
        if (fd < 0 || fstat(fd, &status) != 0) return {};
        return {status.st_dev, status.st_ino};
    }
    bool is(int fd) const { return inode != 0 && *this == of(fd); }
    friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

}  // namespace verbena
