#pragma once

#include <cerrno>
#include <utility>

#include "rspreload/real.h"

namespace verbena::rspreload {

// A descriptor of the kernel's, closed unless it is kept: also by a thread that is cancelled.
class Descriptor {
   public:
    explicit Descriptor(int fd) : fd_(fd) {}
    ~Descriptor() {
        const int before = errno;
        if (fd_ >= 0) real().close(fd_);
        errno = before;
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int get() const { return fd_; }
    void reset(int fd) { fd_ = fd; }  // of one that was kept
    int keep() { return std::exchange(fd_, -1); }

   private:
    int fd_;
};

}  // namespace verbena::rspreload
