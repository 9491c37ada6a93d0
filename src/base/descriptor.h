// A file descriptor that closes itself, which is no point of cancellation: a thread may be at it in a
// program's post or poll, with locks held.
#pragma once

#include <utility>

#include "base/uncancelled.h"

namespace verbena {

class Descriptor {
   public:
    Descriptor() = default;
    explicit Descriptor(int fd) : fd_(fd) {}
    Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        reset(other.release());
        return *this;
    }
    ~Descriptor() { reset(); }

    int get() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }
    int release() { return std::exchange(fd_, -1); }
    void reset(int fd = -1) {
        if (fd_ >= 0) uncancelled::close(fd_);
        fd_ = fd;
    }

   private:
    int fd_ = -1;
};

}  // namespace verbena
