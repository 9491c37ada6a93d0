// Memory regions (IBA 10.6, 11.2.7). All memory of a program is reachable by its CPU, so nothing is pinned
// and no memlock limit applies; the range must be mapped when it is registered, as a kernel demands.

#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "adapter/adapter.h"
#include "base/reason.h"
#include "verbs/objects.h"
#include "verbs/process.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace verbena::verbs {
namespace {

// msync() walks the mappings of the range and tells of holes; asynchronous, it writes nothing.
bool is_mapped(const void* address, std::size_t length) {
    if (length == 0) return true;
    auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    auto start = reinterpret_cast<std::uintptr_t>(address);
    std::uintptr_t first = start & ~(page - 1);
    std::uintptr_t end = start + length;
    if (end < start) return false;
    return msync(reinterpret_cast<void*>(first), end - first, MS_ASYNC) == 0 || errno != ENOMEM;
}

memory::Access wanted_access(unsigned access) { return access & ~memory::kOptionalMask; }

ibv_mr* register_region(ibv_pd* pd_handle, void* address, std::size_t length, std::uint64_t iova,
                        unsigned access_flags) {
    Pd* pd = Pd::of(pd_handle);
    Context* context = Context::of(pd_handle->context);
    if (!context->process->usable()) {
        context->process->refuse();
        return nullptr;
    }
    memory::Access access = wanted_access(access_flags);
    if (access & ~memory::kAllRequired) return fail_null(EINVAL, "unknown access flags 0x%x", access);
    if (access & (memory::kHugeTlb | memory::kFlushGlobal | memory::kFlushPersistent))
        return fail_null(EOPNOTSUPP, "access flags 0x%x are not supported", access);
    if (!is_mapped(address, length))
        return fail_null(EFAULT, "%p..%p is not mapped memory of this process", address,
                         static_cast<void*>(static_cast<char*>(address) + length));
    auto* region = new (std::nothrow) Region;
    if (!region) return fail_null(ENOMEM, "no memory");
    if (access & memory::kZeroBased) iova = 0;
    memory::Keys keys;
    if (int error =
            context->process->adapter().regions().add(pd->number, address, length, iova, access, keys)) {
        delete region;
        errno = error;
        return nullptr;
    }
    region->access = access;
    region->base.context = pd_handle->context;
    region->base.pd = pd_handle;
    region->base.addr = address;
    region->base.length = length;
    region->base.handle = keys.lkey >> 8;
    region->base.lkey = keys.lkey;
    region->base.rkey = keys.rkey;
    pd->users++;
    std::lock_guard lock(context->objects_lock);
    context->regions.insert(region);
    return &region->base;
}

}  // namespace
}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

extern "C" {

struct ibv_mr* ibv_reg_mr(struct ibv_pd* pd, void* addr, size_t length, int access) {
    Call call("ibv_reg_mr");
    return register_region(pd, addr, length, reinterpret_cast<std::uintptr_t>(addr),
                           static_cast<unsigned>(access));
}

struct ibv_mr* ibv_reg_mr_iova(struct ibv_pd* pd, void* addr, size_t length, uint64_t iova, int access) {
    Call call("ibv_reg_mr_iova");
    return register_region(pd, addr, length, iova, static_cast<unsigned>(access));
}

struct ibv_mr* ibv_reg_mr_iova2(struct ibv_pd* pd, void* addr, size_t length, uint64_t iova,
                                unsigned int access) {
    Call call("ibv_reg_mr_iova2");
    return register_region(pd, addr, length, iova, access);
}

int ibv_dereg_mr(struct ibv_mr* mr) {
    Region* region = Region::of(mr);
    Call call("ibv_dereg_mr", "MR", mr->lkey);
    Context* context = Context::of(mr->context);
    if (!context->process->forked())
        if (int error = context->process->adapter().regions().remove(mr->lkey)) return error;
    {
        std::lock_guard lock(context->objects_lock);
        context->regions.erase(region);
    }
    Pd::of(mr->pd)->users--;
    delete region;
    return 0;
}

int ibv_rereg_mr(struct ibv_mr* mr, int flags, struct ibv_pd* pd, void* addr, size_t length, int access) {
    Call call("ibv_rereg_mr", "MR", mr->lkey);
    constexpr int kKnown =
        IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
    bool translation = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
    bool change_pd = flags & IBV_REREG_MR_CHANGE_PD;
    bool change_access = flags & IBV_REREG_MR_CHANGE_ACCESS;
    auto refuse = [](int error, const char* why) {
        fail(error, "%s", why);
        return static_cast<int>(IBV_REREG_MR_ERR_INPUT);
    };
    if (Process* process = Context::of(mr->context)->process; !process->usable()) {
        process->refuse();
        return IBV_REREG_MR_ERR_INPUT;
    }
    if (!flags || (flags & ~kKnown)) return refuse(EINVAL, "flags are zero or unknown");
    if (translation && (!length || !addr))
        return refuse(EINVAL, "a new translation needs an address and a length");
    if (change_pd && !pd) return refuse(EINVAL, "the new protection domain is NULL");
    if (translation && !is_mapped(addr, length)) return refuse(EFAULT, "the new range is not mapped memory");
    auto new_access = wanted_access(static_cast<unsigned>(access));
    if (change_access && (new_access & ~memory::kAllRequired)) return refuse(EINVAL, "unknown access flags");

    memory::PdNumber number = change_pd ? Pd::of(pd)->number : 0;
    std::uint64_t new_length = length;
    memory::Keys keys;
    int error = Context::of(mr->context)
                    ->process->adapter()
                    .regions()
                    .change(mr->lkey, change_pd ? &number : nullptr, translation ? &addr : nullptr,
                            translation ? &new_length : nullptr, change_access ? &new_access : nullptr, keys);
    if (error) {
        errno = error;
        return IBV_REREG_MR_ERR_INPUT;
    }
    if (change_pd) {
        Pd::of(mr->pd)->users--;
        Pd::of(pd)->users++;
        mr->pd = pd;
    }
    if (translation) {
        mr->addr = addr;
        mr->length = length;
    }
    if (change_access) Region::of(mr)->access = new_access;
    mr->lkey = keys.lkey;
    mr->rkey = keys.rkey;
    return 0;
}

}  // extern "C"
