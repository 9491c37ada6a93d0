#include "adapter/memory_file.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/features.h"

namespace verbena::adapter {
namespace {

// open(), pread() and pwrite() are cancellation points, and a thread must not end in the middle of a post,
// under locks. So they are called by number.

int open_memory(pid_t pid) {
    if (!features().procmem) return -1;
    char name[32];
    std::snprintf(name, sizeof name, "/proc/%d/mem", pid);
    const int before = errno;
    const int fd = out_of_the_way(static_cast<int>(syscall(SYS_openat, AT_FDCWD, name, O_RDWR | O_CLOEXEC)));
    errno = before;
    return fd;
}

MemoryFile::Result result_of(long done, std::size_t wanted) {
    if (done == 0) return MemoryFile::Result::over;
    return done == static_cast<long>(wanted) ? MemoryFile::Result::done : MemoryFile::Result::failed;
}

}  // namespace

MemoryFile::MemoryFile(pid_t pid) : file_(open_memory(pid)), usable_(file_.get() >= 0) {}

void MemoryFile::close() {
    give_up();
    file_.close();
}

MemoryFile::Result MemoryFile::read(std::uint64_t from, void* into, std::size_t length) const {
    return result_of(syscall(SYS_pread64, file_.get(), into, length, from), length);
}

MemoryFile::Result MemoryFile::write(const void* from, std::uint64_t to, std::size_t length) const {
    return result_of(syscall(SYS_pwrite64, file_.get(), from, length, to), length);
}

}  // namespace verbena::adapter
