// Buffers that the device allocates (ibv_alloc_buf(3), release 64). They exist for devices that reach some
// memory only, in virtual machines with encrypted memory; ours reaches what the process reaches, so that any
// memory does, also for a parent domain that allows unprotected memory.

#include "verbs/buf.h"

#include <infiniband/verbs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/call_fault.h"
#include "base/reason.h"

namespace verbena::verbs {

void* alloc_buf(ibv_pd* pd, std::size_t size, ibv_buf** buffer) {
    Call call("ibv_alloc_buf");
    if (!pd || !buffer) return fail_null(EINVAL, "pd or buf is NULL");
    if (size == 0) return fail_null(EINVAL, "a buffer of no bytes");
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    auto* made = new (std::nothrow) ibv_buf{pd, nullptr, size};
    // Whole pages: what else lies in them could be seen through a region.
    if (!made || size > SIZE_MAX - page ||
        posix_memalign(&made->address, page, (size + page - 1) / page * page)) {
        delete made;
        return fail_null(ENOMEM, "no memory for a buffer of %zu bytes", size);
    }
    std::memset(made->address, 0, size);
    *buffer = made;
    return made->address;
}

void free_buf(ibv_buf* buffer) {
    if (!buffer) return;
    std::free(buffer->address);
    delete buffer;
}

int check_part(const ibv_buf& buffer, const ibv_pd* pd, const void* address, std::size_t length) {
    if (pd != buffer.pd) return fail(EINVAL, "the buffer was allocated for another protection domain");
    const auto begin = reinterpret_cast<std::uintptr_t>(buffer.address);
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    if (at < begin || at - begin > buffer.size || length > buffer.size - (at - begin))
        return fail(EINVAL, "%zu bytes at %p are not within the buffer's %zu at %p", length, address,
                    buffer.size, buffer.address);
    return 0;
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

#undef ibv_reg_mr

extern "C" {

void* ibv_alloc_buf(struct ibv_pd* pd, size_t size, struct ibv_buf** buffer) {
    if (const Fault fault{"ibv_alloc_buf"}) return fault.null();
    return alloc_buf(pd, size, buffer);
}

void ibv_free_buf(struct ibv_buf* buffer) { free_buf(buffer); }

struct ibv_mr* ibv_reg_buf_mr(struct ibv_pd* pd, struct ibv_buf* buffer, void* address, size_t length,
                              int access) {
    if (const Fault fault{"ibv_reg_buf_mr"}) return fault.null();
    Call call("ibv_reg_buf_mr");
    if (!pd || !buffer) return fail_null(EINVAL, "pd or buf is NULL");
    return check_part(*buffer, pd, address, length) == 0 ? ibv_reg_mr(pd, address, length, access) : nullptr;
}

int ibv_export_buf_dmabuf_fd(struct ibv_buf* buffer) {
    if (const Fault fault{"ibv_export_buf_dmabuf_fd"}) return fault.minus_one();
    Call call("ibv_export_buf_dmabuf_fd");
    if (!buffer) return fail_minus_one(EINVAL, "buf is NULL");
    return fail_minus_one(ENODATA, "the buffer is ordinary memory, not backed by a dma-buf");
}

}  // extern "C"
