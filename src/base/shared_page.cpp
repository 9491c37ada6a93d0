#include "base/shared_page.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

#include "base/features.h"
#include "base/reason.h"

namespace verbena {

SharedPage::~SharedPage() {
    if (address_) munmap(address_, kSize);
}

SharedPage SharedPage::map(int fd) {
    void* const address = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return address == MAP_FAILED ? SharedPage() : SharedPage(address);
}

SharedPage SharedPage::make(const char* name, int& fd) {
    fd = features().memfd ? memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING) : -1;
    if (fd < 0) return {};
    SharedPage page;
    if (ftruncate(fd, kSize) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0) page = map(fd);
    if (!page) close(std::exchange(fd, -1));
    return page;
}

int SharedPage::open(int fd, SharedPage& page) {
    struct stat status {};
    struct statfs system {};
    const int seals = fcntl(fd, F_GET_SEALS);
    // Huge pages could still be punched out, and not be there any more when they are wanted.
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &status) != 0 || status.st_size < off_t{kSize} ||
        fstatfs(fd, &system) != 0 || system.f_type != TMPFS_MAGIC)
        return fail(EINVAL, "a page to be shared is no sealed memory file of %zu bytes", kSize);
    page = map(fd);
    return page ? 0 : fail(ENOMEM, "no memory for a shared page");
}

}  // namespace verbena
