// Device memory (ibv_alloc_dm(3)). There is no device, so it is memory of the process that the program has no
// address for. A child that a fork made has a copy of its own.

#include "verbs/dm.h"

#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <map>
#include <new>

#include "base/call_fault.h"
#include "base/immortal.h"
#include "base/out_of_memory.h"
#include "base/reason.h"
#include "verbs/limits.h"
#include "verbs/mr.h"
#include "verbs/process.h"

namespace verbena::verbs {
namespace {

constexpr std::size_t kAlignment = 4;  // of what is copied, as adapters demand

// What can be imported, by handle.
std::mutex known_lock;
std::map<std::uint32_t, std::weak_ptr<DeviceMemory::Bytes>>& known() {
    static Immortal<std::map<std::uint32_t, std::weak_ptr<DeviceMemory::Bytes>>> map;
    return *map;
}

int check_range(const DeviceMemory& dm, std::uint64_t offset, std::size_t length) {
    if (offset % kAlignment || length % kAlignment)
        return fail(EINVAL, "offset %llu and length %zu must be multiples of %zu",
                    static_cast<unsigned long long>(offset), length, kAlignment);
    if (offset > dm.bytes->length || length > dm.bytes->length - offset)
        return fail(EINVAL, "offset %llu and length %zu; the memory has %zu bytes",
                    static_cast<unsigned long long>(offset), length, dm.bytes->length);
    return 0;
}

int copy_to(ibv_dm* base, std::uint64_t offset, const void* from, std::size_t length) {
    Call call("ibv_memcpy_to_dm");
    if (const Fault fault{"ibv_memcpy_to_dm"}) return fault.error();
    const DeviceMemory& dm = *DeviceMemory::of(base);
    if (int error = check_range(dm, offset, length)) return error;
    std::memcpy(dm.bytes->address + offset, from, length);
    return 0;
}

int copy_from(void* to, ibv_dm* base, std::uint64_t offset, std::size_t length) {
    Call call("ibv_memcpy_from_dm");
    if (const Fault fault{"ibv_memcpy_from_dm"}) return fault.error();
    const DeviceMemory& dm = *DeviceMemory::of(base);
    if (int error = check_range(dm, offset, length)) return error;
    std::memcpy(to, dm.bytes->address + offset, length);
    return 0;
}

ibv_dm* new_object(ibv_context* context, std::shared_ptr<DeviceMemory::Bytes> bytes, std::uint32_t handle) {
    auto dm = std::make_unique<DeviceMemory>();
    dm->bytes = std::move(bytes);
    dm->base.context = context;
    dm->base.memcpy_to_dm = copy_to;
    dm->base.memcpy_from_dm = copy_from;
    dm->base.handle = handle;
    std::lock_guard lock(Context::of(context)->objects_lock);
    Context::of(context)->device_memories.insert(dm.get());
    return &dm.release()->base;
}

}  // namespace

DeviceMemory::Bytes::Bytes(std::size_t wanted) : length(wanted) {
    void* memory = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    address = memory == MAP_FAILED ? nullptr : static_cast<std::uint8_t*>(memory);
}

DeviceMemory::Bytes::~Bytes() {
    if (address) munmap(address, length);
}

// A forked child may do so on its parent's context, as rdma-core's tests do: it is only memory.
ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attributes) {
    Call call("ibv_alloc_dm");
    if (const Fault fault{"ibv_alloc_dm"}) return fault.null();
    if (attributes->comp_mask) return fail_null(EINVAL, "comp_mask 0x%x is unknown", attributes->comp_mask);
    if (attributes->length == 0 || attributes->length > kMaxDeviceMemory)
        return fail_null(EINVAL, "%zu bytes; max_dm_size is %llu", attributes->length,
                         static_cast<unsigned long long>(kMaxDeviceMemory));
    const auto page = static_cast<unsigned long>(sysconf(_SC_PAGESIZE));
    if (attributes->log_align_req > static_cast<unsigned>(std::countr_zero(page)))
        return fail_null(EINVAL, "log_align_req %u; memory is aligned to %lu bytes",
                         attributes->log_align_req, page);
    return unless_out_of_memory([&]() -> ibv_dm* {
        auto bytes = std::make_shared<DeviceMemory::Bytes>(attributes->length);
        if (!bytes->address) return fail_null(ENOMEM, "no memory");
        static std::atomic<std::uint32_t> next{1};
        const std::uint32_t handle = next.fetch_add(1);
        std::lock_guard lock(known_lock);
        known()[handle] = bytes;
        return new_object(context, bytes, handle);
    });
}

int free_dm(ibv_dm* base) {
    Call call("ibv_free_dm");
    if (const Fault fault{"ibv_free_dm"}) return fault.error();
    DeviceMemory* dm = DeviceMemory::of(base);
    if (std::uint32_t users = dm->users) return fail(EBUSY, "%u regions still use it", users);
    Context* context = Context::of(base->context);
    {
        std::lock_guard lock(context->objects_lock);
        context->device_memories.erase(dm);
    }
    const std::uint32_t handle = base->handle;
    delete dm;
    std::lock_guard lock(known_lock);
    if (auto found = known().find(handle); found != known().end() && found->second.expired())
        known().erase(found);
    return 0;
}

ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* base, std::uint64_t offset, std::size_t length, unsigned access) {
    Call call("ibv_reg_dm_mr");
    if (const Fault fault{"ibv_reg_dm_mr"}) return fault.null();
    DeviceMemory* dm = DeviceMemory::of(base);
    if (!(access & IBV_ACCESS_ZERO_BASED))
        return fail_null(EINVAL, "device memory has no address: IBV_ACCESS_ZERO_BASED must be given");
    if (access & IBV_ACCESS_ON_DEMAND) return fail_null(EINVAL, "device memory is not on demand");
    if (pd->context->device != base->context->device)
        return fail_null(EINVAL, "the memory is of another device than the protection domain");
    if (offset > dm->bytes->length || length > dm->bytes->length - offset)
        return fail_null(EINVAL, "offset %llu and length %zu; the memory has %zu bytes",
                         static_cast<unsigned long long>(offset), length, dm->bytes->length);
    Region* region = register_memory({pd, dm->bytes->address + offset, length, 0, access});
    if (!region) return nullptr;
    region->kind = RegionKind::other_memory;
    region->device_memory = dm;
    region->base.addr = nullptr;
    dm->users++;
    return &region->base;
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

extern "C" {

struct ibv_dm* ibv_import_dm(struct ibv_context* context, uint32_t handle) {
    if (const Fault fault{"ibv_import_dm"}) return fault.null();
    Call call("ibv_import_dm");
    if (Context::of(context)->foreign)
        return fail_null(EOPNOTSUPP,
                         "the context was imported from another process, whose memory this one cannot reach");
    std::shared_ptr<DeviceMemory::Bytes> bytes;
    {
        std::lock_guard lock(known_lock);
        if (auto found = known().find(handle); found != known().end()) bytes = found->second.lock();
    }
    if (!bytes) return fail_null(ENOENT, "there is no device memory %u", handle);
    return unless_out_of_memory([&] { return new_object(context, std::move(bytes), handle); });
}

void ibv_unimport_dm(struct ibv_dm* dm) { free_dm(dm); }

}  // extern "C"
