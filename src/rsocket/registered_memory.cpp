#include "rsocket/registered_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/reason.h"

namespace verbena::rsocket {

int RegisteredMemory::create(ibv_pd* pd, std::size_t size, int access) {
    void* pages = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return fail(ENOMEM, "no memory for a buffer of %zu bytes: %s", size, std::strerror(errno));
    pages_ = pages;
    size_ = size;
    mr_ = ibv_reg_mr(pd, pages_, size_, access);
    return mr_ ? 0 : errno;
}

void RegisteredMemory::release() {
    if (mr_) ibv_dereg_mr(mr_);
    if (pages_) munmap(pages_, size_);
    mr_ = nullptr;
    pages_ = nullptr;
}

}  // namespace verbena::rsocket
