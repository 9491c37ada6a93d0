// Memory regions (IBA 10.6, 11.2.7). All memory of a program is reachable by its CPU, so nothing is pinned
// and no memlock limit applies; the range must be mapped when it is registered, as a kernel demands. What is
// unmapped afterwards must not be accessed, as with any memory of the process: only a region with
// IBV_ACCESS_ON_DEMAND looks first (memory::MemoryProbe). Regions of other memory: mr_kinds.cpp, dm.cpp.

#include "verbs/mr.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <new>

#include "adapter/adapter.h"
#include "base/call_fault.h"
#include "base/no_cancellation.h"
#include "base/out_of_memory.h"
#include "base/reason.h"
#include "verbs/mapping.h"
#include "verbs/process.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace verbena::verbs {
namespace {

// Hints may be ignored, and are (IBV_ACCESS_OPTIONAL_RANGE).
memory::Access wanted_access(unsigned access) { return access & ~memory::kOptionalMask; }

int check_access(memory::Access access) {
    if (access & ~memory::kAllRequired) return fail(EINVAL, "unknown access flags 0x%x", access);
    if (access & memory::kFlushPersistent)
        return fail(EOPNOTSUPP, "IBV_ACCESS_FLUSH_PERSISTENT: no memory here outlives a loss of power");
    return 0;
}

// 0, or an errno with the reason: the range cannot be had with these rights.
int check_mapping(const void* address, std::uint64_t length, memory::Access access) {
    if (access & memory::kOnDemand) return 0;
    const auto bytes = static_cast<unsigned long long>(length);
    if (wraps(address, length))
        return fail(EINVAL, "%p + %llu bytes goes round the end of the address space", address, bytes);
    if (!is_mapped(address, length))
        return fail(EFAULT, "%p + %llu bytes is not mapped memory of this process", address, bytes);
    if ((access & memory::kLocalWrite) && !is_writable(address, length))
        return fail(EFAULT, "%p + %llu bytes cannot be written, and IBV_ACCESS_LOCAL_WRITE is asked for",
                    address, bytes);
    if (!is_readable(address, length)) return fail(EFAULT, "%p + %llu bytes cannot be read", address, bytes);
    return 0;
}

// Fills in what a new region has in common with all others, and lists it.
void adopt(Region& region, ibv_pd* pd, const memory::Keys& keys) {
    region.base.context = pd->context;
    region.base.pd = pd;
    region.base.handle = keys.lkey >> 8;
    region.base.lkey = keys.lkey;
    region.base.rkey = keys.rkey;
    Context* context = Context::of(pd->context);
    std::lock_guard lock(context->objects_lock);
    context->regions.insert(&region);
    Pd::of(pd)->enter();
}

// A region with the keys that `add(keys)` gives to a new entry of the table: 0, or an errno with the reason.
template <class Add>
Region* make(ibv_pd* pd, RegionKind kind, Add add) {
    std::unique_ptr<Region> region(new (std::nothrow) Region);
    if (!region) return fail_null(ENOMEM, "no memory");
    region->kind = kind;
    memory::Keys keys{};
    const int error = unless_out_of_memory([&] {
        const int refused = add(keys);
        if (!refused) adopt(*region, pd, keys);
        return refused;
    });
    if (!error) return region.release();
    if (keys.lkey != 0) Context::of(pd->context)->process->adapter().regions().remove(keys.lkey);
    errno = error;
    return nullptr;
}

}  // namespace

Region* register_memory(const Registration& wanted) {
    Pd* pd = Pd::of(wanted.pd);
    Context* context = Context::of(wanted.pd->context);
    if (!is_usable(*context)) return nullptr;
    const memory::Access access = wanted_access(wanted.access);
    if (int error = check_access(access)) {
        errno = error;
        return nullptr;
    }
    memory::RegionTable& regions = context->process->adapter().regions();
    const std::uint64_t iova = access & memory::kZeroBased ? 0 : wanted.iova;
    Region* region = make(wanted.pd, RegionKind::users_memory, [&](memory::Keys& keys) {
        return regions.add(pd->number, wanted.address, wanted.length, iova, access, keys);
    });
    if (!region) return nullptr;
    region->access = access;
    region->base.addr = wanted.address;
    region->base.length = wanted.length;
    return region;
}

Region* register_nothing(ibv_pd* pd) {
    memory::RegionTable& regions = Context::of(pd->context)->process->adapter().regions();
    Region* region = make(pd, RegionKind::other_memory,
                          [&](memory::Keys& keys) { return regions.add_null(Pd::of(pd)->number, keys); });
    if (!region) return nullptr;
    region->base.length = SIZE_MAX;
    return region;
}

Region* another_handle(ibv_pd* pd, const memory::Keys& keys) {
    return unless_out_of_memory([&] {
        auto region = std::make_unique<Region>();
        region->kind = RegionKind::imported;
        adopt(*region, pd, keys);
        return region.release();
    });
}

void forget(Region* region) {
    Context* context = Context::of(region->base.context);
    {
        std::lock_guard lock(context->objects_lock);
        context->regions.erase(region);
    }
    Pd::of(region->base.pd)->leave();
    if (region->mapping) munmap(region->mapping, region->mapping_length);
    if (region->device_memory) region->device_memory->users--;
    delete region;
}

ibv_mr* register_users_memory(const Registration& wanted) {
    const char* start = static_cast<const char*>(wanted.address);
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    if ((reinterpret_cast<std::uintptr_t>(start) ^ wanted.iova) & (page - 1))
        return fail_null(EINVAL, "address %p and iova 0x%llx lie at different offsets into their pages",
                         static_cast<const void*>(start), static_cast<unsigned long long>(wanted.iova));
    if (int error = check_mapping(start, wanted.length, wanted.access)) return errno = error, nullptr;
    Region* region = register_memory(wanted);
    return region ? &region->base : nullptr;
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

extern "C" {

struct ibv_mr* ibv_reg_mr(struct ibv_pd* pd, void* addr, size_t length, int access) {
    if (const Fault fault{"ibv_reg_mr"}) return fault.null();
    Call call("ibv_reg_mr");
    return register_users_memory(
        {pd, addr, length, reinterpret_cast<std::uintptr_t>(addr), static_cast<unsigned>(access)});
}

struct ibv_mr* ibv_reg_mr_iova(struct ibv_pd* pd, void* addr, size_t length, uint64_t iova, int access) {
    if (const Fault fault{"ibv_reg_mr_iova"}) return fault.null();
    Call call("ibv_reg_mr_iova");
    return register_users_memory({pd, addr, length, iova, static_cast<unsigned>(access)});
}

struct ibv_mr* ibv_reg_mr_iova2(struct ibv_pd* pd, void* addr, size_t length, uint64_t iova,
                                unsigned int access) {
    if (const Fault fault{"ibv_reg_mr_iova2"}) return fault.null();
    Call call("ibv_reg_mr_iova2");
    return register_users_memory({pd, addr, length, iova, access});
}

int ibv_dereg_mr(struct ibv_mr* mr) {
    if (const Fault fault{"ibv_dereg_mr"}) return fault.error();
    Region* region = Region::of(mr);
    Call call("ibv_dereg_mr", "MR", mr->lkey);
    const NoCancellation whole;
    Context* context = Context::of(mr->context);
    if (!context->process->forked())
        if (int error = context->process->adapter().regions().remove(mr->lkey)) return error;
    forget(region);
    return 0;
}

int ibv_rereg_mr(struct ibv_mr* mr, int flags, struct ibv_pd* pd, void* addr, size_t length, int access) {
    Call call("ibv_rereg_mr", "MR", mr->lkey);
    if (const Fault fault{"ibv_rereg_mr"}) return fault.error(), IBV_REREG_MR_ERR_CMD;
    constexpr int kKnown =
        IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
    bool translation = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
    bool change_pd = flags & IBV_REREG_MR_CHANGE_PD;
    bool change_access = flags & IBV_REREG_MR_CHANGE_ACCESS;
    const auto refuse = [](int error, const char* why) {
        fail(error, "%s", why);
        return static_cast<int>(IBV_REREG_MR_ERR_INPUT);
    };
    if (!is_usable(*Context::of(mr->context))) return IBV_REREG_MR_ERR_INPUT;
    if (!flags || (flags & ~kKnown)) return refuse(EINVAL, "flags are zero or unknown");
    if (Region::of(mr)->kind != RegionKind::users_memory)
        return refuse(EINVAL, "only regions of the program's own memory can be changed");
    if (translation && (!length || !addr))
        return refuse(EINVAL, "a new translation needs an address and a length");
    if (access && !change_access) return refuse(EINVAL, "access is given without IBV_REREG_MR_CHANGE_ACCESS");
    if (change_pd && !pd) return refuse(EINVAL, "the new protection domain is NULL");
    if (change_pd && pd->context != mr->context)
        return refuse(EINVAL, "the new protection domain belongs to another context");
    const memory::Access new_access =
        change_access ? wanted_access(static_cast<unsigned>(access)) : Region::of(mr)->access;
    // From here on it is what a kernel checks: the region stays as it was.
    if (change_access)
        if (int error = check_access(new_access)) return errno = error, IBV_REREG_MR_ERR_CMD;
    // New rights count for the range that there is, too: what could only be read cannot be written since, and
    // what was on demand need not be there.
    if (translation || change_access)
        if (int error =
                check_mapping(translation ? addr : mr->addr, translation ? length : mr->length, new_access))
            return errno = error, IBV_REREG_MR_ERR_CMD;

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
        return IBV_REREG_MR_ERR_CMD;
    }
    if (change_pd) {
        Pd::of(pd)->enter();
        Pd::of(mr->pd)->leave();
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
