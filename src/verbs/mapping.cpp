#include "verbs/mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/memcheck.h"
#include "base/no_cancellation.h"

namespace verbena::verbs {
namespace {

// Linux 5.14.
constexpr int kPopulateRead = 22, kPopulateWrite = 23;

struct Pages {
    void* first;
    std::size_t bytes;
};

// False: the range wraps.
bool pages_of(const void* address, std::uint64_t length, Pages& out) {
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto start = reinterpret_cast<std::uintptr_t>(address);
    const std::uintptr_t first = start & ~(page - 1), end = start + length;
    if (end < start || end > UINTPTR_MAX - page) return false;  // the kernel rounds up
    out = {reinterpret_cast<void*>(first), end - first};
    return true;
}

int advise(const void* address, std::uint64_t length, int advice) {
    Pages pages;
    if (!pages_of(address, length, pages)) return ENOMEM;
    while (madvise(pages.first, pages.bytes, advice) != 0)
        if (errno != EINTR && errno != EAGAIN) return errno;
    return 0;
}

// False if the kernel says that it cannot be done. Other errors say nothing of the memory (EPERM, ENOSYS: a
// filter on system calls), and EINVAL means an old kernel, or that the mapping does not permit it.
bool populate(const void* address, std::uint64_t length, int advice) {
    const int error = advise(address, length, advice);
    if (error == EINVAL) {
        static char writable;
        static const bool known = advise(&writable, 1, kPopulateWrite) == 0;
        return !known;
    }
    return error != EFAULT && error != ENOMEM && error != EHWPOISON;
}

}  // namespace

bool wraps(const void* address, std::uint64_t length) {
    Pages pages;
    return !pages_of(address, length, pages);
}

// msync() walks the mappings of the range and tells of holes; asynchronous, it writes nothing, though
// memcheck believes that it does.
bool is_mapped(const void* address, std::uint64_t length) {
    if (length == 0) return true;
    Pages pages;
    if (!pages_of(address, length, pages)) return false;
    const memcheck::Unjudged unjudged;
    const NoCancellation whole;
    return msync(pages.first, pages.bytes, MS_ASYNC) == 0 || errno != ENOMEM;
}

namespace {

bool ends_populate(const void* address, std::uint64_t length, int advice) {
    if (length == 0) return true;
    return is_mapped(address, length) && populate(address, 1, advice) &&
           populate(static_cast<const char*>(address) + length - 1, 1, advice);
}

}  // namespace

bool is_readable(const void* address, std::uint64_t length) {
    return ends_populate(address, length, kPopulateRead);
}

bool is_writable(const void* address, std::uint64_t length) {
    return ends_populate(address, length, kPopulateWrite);
}

bool probe(const void* address, std::uint64_t length, bool write) {
    return is_mapped(address, length) && populate(address, length, write ? kPopulateWrite : kPopulateRead);
}

}  // namespace verbena::verbs
