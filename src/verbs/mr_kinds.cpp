// Regions of other memory than the program's own, and what is said about regions: null regions, dma-bufs,
// import, advice.

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <span>

#include "adapter/adapter.h"
#include "base/call_fault.h"
#include "base/reason.h"
#include "verbs/buf.h"
#include "verbs/mr.h"
#include "verbs/process.h"

namespace verbena::verbs {
namespace {

bool is_dma_buf(int fd) {
    char path[32], target[16] = {};
    std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return readlink(path, target, sizeof target - 1) > 0 && std::strncmp(target, "/dmabuf:", 8) == 0;
}

ibv_mr* register_dma_buf(ibv_pd* pd, std::uint64_t offset, std::size_t length, std::uint64_t iova, int fd,
                         unsigned access) {
    constexpr unsigned kPossible = memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead |
                                   memory::kRemoteAtomic | IBV_ACCESS_RELAXED_ORDERING;
    if (access & ~kPossible)
        return fail_null(EINVAL, "access flags 0x%x are not for dma-bufs", access & ~kPossible);
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const std::uint64_t into_page = offset % page;
    if (iova % page != into_page)
        return fail_null(EINVAL, "offset 0x%llx and iova 0x%llx lie at different offsets into their pages",
                         static_cast<unsigned long long>(offset), static_cast<unsigned long long>(iova));
    // So NCCL, UCX and libfabric ask whether memory of PCIe devices can be registered.
    if (fd == -1) return fail_null(EOPNOTSUPP, "of dma-bufs those alone that the CPU can map; fd is -1");
    if (fcntl(fd, F_GETFD) < 0) return fail_null(EBADF, "descriptor %d is not open", fd);
    if (!is_dma_buf(fd)) return fail_null(EINVAL, "descriptor %d is no dma-buf", fd);
    if (length == 0 || length > SIZE_MAX - into_page) return fail_null(EINVAL, "%zu bytes", length);
    const int protection = PROT_READ | (access & memory::kLocalWrite ? PROT_WRITE : 0);
    void* mapping =
        mmap(nullptr, length + into_page, protection, MAP_SHARED, fd, static_cast<off_t>(offset - into_page));
    if (mapping == MAP_FAILED)
        return fail_null(errno == EINVAL ? EINVAL : EOPNOTSUPP,
                         "the dma-buf's exporter does not let the CPU map it: %s", std::strerror(errno));
    Region* region =
        register_memory({pd, static_cast<std::uint8_t*>(mapping) + into_page, length, iova, access});
    if (!region) {
        const int error = errno;
        munmap(mapping, length + into_page);
        errno = error;
        return nullptr;
    }
    region->kind = RegionKind::other_memory;
    region->mapping = mapping;
    region->mapping_length = length + into_page;
    region->base.addr = nullptr;  // the program has no address for it
    return &region->base;
}

// The regions of this process by handle, for ibv_import_mr.
Region* find_region(Process& process, std::uint32_t handle) {
    Region* found = nullptr;
    process.for_each_context([&](Context& context) {
        std::lock_guard lock(context.objects_lock);
        for (Region* region : context.regions)
            if (region->base.handle == handle && region->kind != RegionKind::imported) found = region;
    });
    return found;
}

// Regions and windows share one table: no region has the index of a window.
bool names_window(Process& process, std::uint32_t key) {
    bool found = false;
    process.for_each_context([&](Context& context) {
        std::lock_guard lock(context.objects_lock);
        for (const Window* window : context.windows) found = found || window->base.rkey >> 8 == key >> 8;
    });
    return found;
}

// ibv_advise_mr(3)'s errors. A look-up in an on-demand region makes its pages come into being (mapping.h),
// which is the whole prefetch.
int prefetch(memory::RegionTable& regions, memory::PdNumber pd, const ibv_sge& sge, bool write, bool wait) {
    memory::Section section(regions.sections());
    constexpr memory::Access kOnDemand = memory::kOnDemand;
    const auto refuse = [&](int error, const char* why) {
        return fail(error, "lkey 0x%x, address 0x%llx, %u bytes: %s", sge.lkey,
                    static_cast<unsigned long long>(sge.addr), sge.length, why);
    };
    const auto found =
        regions.local(sge.lkey, pd, sge.addr, sge.length, kOnDemand | (write ? memory::kLocalWrite : 0));
    switch (found.error) {
        case memory::LookupError::none:
            return 0;
        case memory::LookupError::bad_key:
            return refuse(ENOENT, to_string(found.error));
        case memory::LookupError::wrong_pd:
            return refuse(EPERM, to_string(found.error));
        case memory::LookupError::no_access:
            if (write && regions.local(sge.lkey, pd, sge.addr, sge.length, kOnDemand))
                return refuse(EPERM, to_string(found.error));
            return refuse(EINVAL, "the region is not on demand");
        case memory::LookupError::not_mapped:
            // If nobody waits for the pages, nobody hears of them.
            return wait ? refuse(EFAULT, to_string(found.error)) : 0;
        default:
            return refuse(EFAULT, to_string(found.error));
    }
}

}  // namespace

ibv_mr* alloc_null_mr(ibv_pd* pd) {
    Call call("ibv_alloc_null_mr");
    if (const Fault fault{"ibv_alloc_null_mr"}) return fault.null();
    Context* context = Context::of(pd->context);
    if (!is_usable(*context)) return nullptr;
    Region* region = register_nothing(pd);
    return region ? &region->base : nullptr;
}

int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* list,
              std::uint32_t count) {
    Call call("ibv_advise_mr");
    if (const Fault fault{"ibv_advise_mr"}) return fault.error();
    Context* context = Context::of(pd->context);
    if (!is_usable(*context)) return errno;
    if (advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
        return fail(EOPNOTSUPP, "advice %d is unknown", static_cast<int>(advice));
    if (flags & ~std::uint32_t{IBV_ADVISE_MR_FLAG_FLUSH})
        return fail(EINVAL, "flags 0x%x are unknown", flags);
    if (count == 0 || !list) return fail(EINVAL, "an empty list");
    memory::RegionTable& regions = context->process->adapter().regions();
    for (const ibv_sge& sge : std::span(list, count)) {
        const int error =
            prefetch(regions, Pd::of(pd)->number, sge, advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
                     flags & IBV_ADVISE_MR_FLAG_FLUSH);
        if (error == ENOENT && names_window(*context->process, sge.lkey))
            return fail(EINVAL, "key 0x%x is a memory window's", sge.lkey);
        if (error) return error;
    }
    return 0;
}

ibv_mr* reg_mr_ex(ibv_pd* pd, ibv_mr_init_attr* attributes) {
    constexpr std::uint64_t kIova = 1u << 0, kAddress = 1u << 1, kFd = 1u << 2, kFdOffset = 1u << 3,
                            kDmah = 1u << 4, kBuffer = 1u << 5;
    const std::uint64_t mask = attributes->comp_mask;
    const auto access = static_cast<unsigned>(attributes->access);
    if (mask & ~(kIova | kAddress | kFd | kFdOffset | kDmah | kBuffer))
        return fail_null(EINVAL, "comp_mask 0x%llx has unknown bits", static_cast<unsigned long long>(mask));
    if (mask & kDmah) return fail_null(EOPNOTSUPP, "DMA handles are for adapters");
    if (mask & kBuffer) {
        if (!(mask & kAddress) || (mask & (kFd | kFdOffset)) || !attributes->buf)
            return fail_null(EINVAL, "a buffer comes with an address in it and without a dma-buf");
        if (check_part(*attributes->buf, pd, attributes->addr, attributes->length) != 0) return nullptr;
    }
    if (mask & kFd) {
        if ((mask & kAddress) || !(mask & kFdOffset) || !(mask & kIova))
            return fail_null(EINVAL,
                             "a dma-buf comes with IBV_REG_MR_MASK_FD_OFFSET and IBV_REG_MR_MASK_IOVA, and "
                             "without an address");
        return register_dma_buf(pd, attributes->fd_offset, attributes->length, attributes->iova,
                                attributes->fd, access);
    }
    if (!(mask & kAddress) || (mask & kFdOffset))
        return fail_null(EINVAL, "comp_mask 0x%llx has neither an address nor a dma-buf",
                         static_cast<unsigned long long>(mask));
    const std::uint64_t iova =
        mask & kIova ? attributes->iova : reinterpret_cast<std::uintptr_t>(attributes->addr);
    return register_users_memory({pd, attributes->addr, attributes->length, iova, access});
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

extern "C" {

struct ibv_mr* ibv_reg_dmabuf_mr(struct ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                                 int access) {
    if (const Fault fault{"ibv_reg_dmabuf_mr"}) return fault.null();
    Call call("ibv_reg_dmabuf_mr");
    return register_dma_buf(pd, offset, length, iova, fd, static_cast<unsigned>(access));
}

struct ibv_mr* ibv_reg_mr_ex(struct ibv_pd* pd, struct ibv_mr_init_attr* attributes) {
    if (const Fault fault{"ibv_reg_mr_ex"}) return fault.null();
    Call call("ibv_reg_mr_ex");
    return reg_mr_ex(pd, attributes);
}

struct ibv_mr* ibv_import_mr(struct ibv_pd* pd, uint32_t handle) {
    if (const Fault fault{"ibv_import_mr"}) return fault.null();
    Call call("ibv_import_mr");
    Context* context = Context::of(pd->context);
    if (!is_usable(*context)) return nullptr;
    const Region* original = find_region(*context->process, handle);
    if (!original || Pd::of(original->base.pd)->number != Pd::of(pd)->number)
        return fail_null(ENOENT, "the protection domain has no memory region %u", handle);
    Region* region = another_handle(pd, {original->base.lkey, original->base.rkey});
    if (!region) return nullptr;
    region->access = original->access;
    region->base.length = original->base.length;  // the address is the owner's affair, as with adapters
    return &region->base;
}

void ibv_unimport_mr(struct ibv_mr* mr) {
    Call call("ibv_unimport_mr", "MR", mr->lkey);
    forget(Region::of(mr));
}

}  // extern "C"
