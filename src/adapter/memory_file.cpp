#include "adapter/memory_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/features.h"

namespace verbena::adapter {
namespace {

int open_memory(pid_t pid) {
    if (!features().procmem) return -1;
    char name[32];
    std::snprintf(name, sizeof name, "/proc/%d/mem", pid);
    const int before = errno;
    const int fd = open(name, O_RDWR | O_CLOEXEC);
    errno = before;
    return fd;
}

}  // namespace

MemoryFile::MemoryFile(pid_t pid) : fd_(open_memory(pid)), usable_(fd_ >= 0) {}

MemoryFile::~MemoryFile() {
    if (fd_ >= 0) close(fd_);
}

bool MemoryFile::read(std::uint64_t from, void* into, std::size_t length) const {
    return pread(fd_, into, length, static_cast<off_t>(from)) == static_cast<ssize_t>(length);
}

bool MemoryFile::write(const void* from, std::uint64_t to, std::size_t length) const {
    return pwrite(fd_, from, length, static_cast<off_t>(to)) == static_cast<ssize_t>(length);
}

}  // namespace verbena::adapter
