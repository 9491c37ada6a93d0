// select()'s sets of descriptors as poll()'s entries, and poll()'s answers as select()'s.
#pragma once

#include <poll.h>
#include <sys/select.h>

#include <optional>
#include <span>
#include <vector>

namespace verbena {

// The three sets of a call, each may be missing. `count` is at most FD_SETSIZE.
struct SelectSets {
    fd_set* readable;
    fd_set* writable;
    fd_set* exceptional;

    static bool has(const fd_set* set, int fd) { return set && FD_ISSET(fd, set); }

    std::vector<pollfd> entries(int count) const {
        std::vector<pollfd> wanted;
        for (int fd = 0; fd < count; fd++) {
            const int events = (has(readable, fd) ? POLLIN : 0) | (has(writable, fd) ? POLLOUT : 0) |
                               (has(exceptional, fd) ? POLLPRI : 0);
            if (events) wanted.push_back({fd, static_cast<short>(events), 0});
        }
        return wanted;
    }

    // Leaves what is ready in the sets and counts it; nothing if one of the descriptors is not open.
    std::optional<int> answer(std::span<const pollfd> polled) const {
        int bits = 0;
        for (const pollfd& entry : polled) {
            if (entry.revents & POLLNVAL) return std::nullopt;
            bits += keep(readable, entry, POLLIN | POLLHUP | POLLERR) +
                    keep(writable, entry, POLLOUT | POLLERR) + keep(exceptional, entry, POLLPRI);
        }
        return bits;
    }

   private:
    static int keep(fd_set* set, const pollfd& entry, int events) {
        if (!has(set, entry.fd)) return 0;
        if (entry.revents & events) return 1;
        FD_CLR(entry.fd, set);
        return 0;
    }
};

}  // namespace verbena
