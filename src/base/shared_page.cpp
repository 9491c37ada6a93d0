#include "base/shared_page.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/features.h"
#include "base/reason.h"
#include "base/sealed_file.h"

namespace verbena {

SharedPage::~SharedPage() {
    if (address_) munmap(address_, kSize);
}

SharedPage SharedPage::map(int fd) {
    void* const address = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return address == MAP_FAILED ? SharedPage() : SharedPage(address);
}

SharedPage SharedPage::make(const char* name, int& fd) {
    fd = features().memfd ? create_sealed_file(name, kSize) : -1;
    if (fd < 0) return {};
    SharedPage page = map(fd);
    if (!page) close(std::exchange(fd, -1));
    return page;
}

int SharedPage::open(int fd, SharedPage& page) {
    if (sealed_length(fd).value_or(0) < kSize)
        return fail(EINVAL, "a page to be shared is no sealed memory file of %zu bytes", kSize);
    page = map(fd);
    return page ? 0 : fail(ENOMEM, "no memory for a shared page");
}

}  // namespace verbena
