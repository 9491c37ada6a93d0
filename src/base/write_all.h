// write(2) until all of it is written.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace verbena {

// 0 or an errno; then some of it may be written.
inline int write_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
        const auto size = write(fd, bytes.data(), bytes.size());
        if (size == 0) return EIO;
        if (size < 0 && errno != EINTR) return errno;
        if (size > 0) bytes.remove_prefix(static_cast<std::size_t>(size));
    }
    return 0;
}

}  // namespace verbena
