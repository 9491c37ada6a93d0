#include "adapter/memory_file.h"

#include <fcntl.h>
#include <sys/syscall.h>
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

// pread() and pwrite() are cancellation points, and a thread must not end in the middle of a post, under
// locks.

bool MemoryFile::read(std::uint64_t from, void* into, std::size_t length) const {
    return syscall(SYS_pread64, fd_, into, length, from) == static_cast<long>(length);
}

bool MemoryFile::write(const void* from, std::uint64_t to, std::size_t length) const {
    return syscall(SYS_pwrite64, fd_, from, length, to) == static_cast<long>(length);
}

}  // namespace verbena::adapter
