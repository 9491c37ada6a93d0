#include "base/sealed_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

#include "base/own_file.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace verbena {

int create_memory_file(const char* name) {
    constexpr unsigned kNotExecutable = 8;  // MFD_NOEXEC_SEAL, since Linux 6.3
    constexpr unsigned kWanted = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create(name, kWanted | kNotExecutable);
    if (fd < 0 && errno == EINVAL) fd = memfd_create(name, kWanted);
    if (fd >= 0) fchmod(fd, S_IRUSR | S_IWUSR);
    return out_of_the_way(fd);
}

bool may_be_as_large(std::size_t size) {
    rlimit largest{};
    if (getrlimit(RLIMIT_FSIZE, &largest) != 0 || size <= largest.rlim_cur) return true;
    errno = EFBIG;
    return false;
}

int create_sized_file(const char* name, std::size_t size) {
    if (!may_be_as_large(size)) return -1;
    const int fd = create_memory_file(name);
    if (fd < 0) return -1;
    if (ftruncate(fd, static_cast<off_t>(size)) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
        return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

int create_sealed_file(const char* name, std::size_t size) {
    const int fd = create_sized_file(name, size);
    if (fd >= 0) fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL);
    return fd;
}

void close_to_writers(int fd) {
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL);
}

std::optional<std::size_t> sealed_length(int fd) {
    struct stat status {};
    struct statfs system {};
    const int seals = fcntl(fd, F_GET_SEALS);  // first: what is no memory file may make the others wait
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &status) != 0 || fstatfs(fd, &system) != 0 ||
        system.f_type == HUGETLBFS_MAGIC)
        return std::nullopt;
    return static_cast<std::size_t>(status.st_size);
}

}  // namespace verbena
