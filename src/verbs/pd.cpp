// Protection domains (IBA 10.2.3), and what stands for one: a parent domain, which adds a thread domain to
// it, and an imported one.

#include <infiniband/verbs.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <new>

#include "base/call_fault.h"
#include "base/immortal.h"
#include "base/out_of_memory.h"
#include "base/reason.h"
#include "verbs/domains.h"
#include "verbs/objects.h"
#include "verbs/process.h"

namespace verbena::verbs {
namespace {

// The PDs of this process by number, for ibv_import_pd.
std::mutex known_lock;
std::map<memory::PdNumber, std::weak_ptr<Pd::Users>>& known() {
    static Immortal<std::map<memory::PdNumber, std::weak_ptr<Pd::Users>>> map;
    return *map;
}

Pd* new_pd(ibv_context* context, memory::PdNumber number, std::shared_ptr<Pd::Users> users) {
    auto* pd = new (std::nothrow) Pd(std::move(users));
    if (!pd) return fail_null(ENOMEM, "no memory");
    pd->number = number;
    pd->base.context = context;
    pd->base.handle = number;
    return pd;
}

void end_handle(Pd* pd) {
    Context::of(pd->base.context)->process->hide(pd->record);
    if (pd->parent) pd->parent->leave();
    if (pd->thread_domain) pd->thread_domain->users--;
    pd->release();
}

}  // namespace

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr) {
    Call call("ibv_alloc_td");
    if (const Fault fault{"ibv_alloc_td"}) return fault.null();
    if (!is_usable(*Context::of(context))) return nullptr;
    if (attr->comp_mask) return fail_null(EINVAL, "comp_mask 0x%x is unknown", attr->comp_mask);
    auto* td = new (std::nothrow) ThreadDomain;
    if (!td) return fail_null(ENOMEM, "no memory");
    td->base.context = context;
    return &td->base;
}

int dealloc_td(ibv_td* handle) {
    Call call("ibv_dealloc_td");
    if (const Fault fault{"ibv_dealloc_td"}) return fault.error();
    ThreadDomain* td = ThreadDomain::of(handle);
    if (std::uint32_t users = td->users) return fail(EBUSY, "%u parent domains still use it", users);
    delete td;
    return 0;
}

// The allocators of ibv_parent_domain_init_attr are for buffers that an adapter reads; there are none here,
// so they are never called.
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr) {
    Call call("ibv_alloc_parent_domain");
    if (const Fault fault{"ibv_alloc_parent_domain"}) return fault.null();
    constexpr std::uint32_t kAllowUnprotected = 1 << 2;  // release 64; buf.cpp says why it means nothing here
    constexpr std::uint32_t kKnown =
        IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT | kAllowUnprotected;
    if (!is_usable(*Context::of(context))) return nullptr;
    if (attr->comp_mask & ~kKnown)
        return fail_null(EINVAL, "comp_mask bits 0x%x are unknown", attr->comp_mask & ~kKnown);
    if (!attr->pd) return fail_null(EINVAL, "pd is NULL");
    if (attr->pd->context != context || (attr->td && attr->td->context != context))
        return fail_null(EINVAL, "the protection domain or the thread domain belongs to another context");
    if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) && (!attr->alloc || !attr->free))
        return fail_null(EINVAL, "IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS needs both alloc and free");
    Pd* parent = Pd::of(attr->pd);
    Pd* domain =
        unless_out_of_memory([&] { return new_pd(context, parent->number, std::make_shared<Pd::Users>(0)); });
    if (!domain) return nullptr;
    domain->parent = parent;
    parent->enter();
    if (attr->td) {
        domain->thread_domain = ThreadDomain::of(attr->td);
        domain->thread_domain->users++;
    }
    return &domain->base;
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

extern "C" {

struct ibv_pd* ibv_alloc_pd(struct ibv_context* context) {
    if (const Fault fault{"ibv_alloc_pd"}) return fault.null();
    Call call("ibv_alloc_pd");
    if (!is_usable(*Context::of(context))) return nullptr;
    static std::atomic<memory::PdNumber> next{1};
    return unless_out_of_memory([&]() -> ibv_pd* {
        const memory::PdNumber number = next.fetch_add(1);
        const auto users = std::make_shared<Pd::Users>(0);
        {
            std::lock_guard lock(known_lock);
            known()[number] = users;
        }
        Pd* pd = new_pd(context, number, users);
        if (!pd) {
            std::lock_guard lock(known_lock);
            known().erase(number);
            return nullptr;
        }
        const Context& owner = *Context::of(context);
        pd->record =
            owner.process->show(owner, {.kind = adapter::ObjectKind::protection_domain, .number = number});
        return &pd->base;
    });
}

int ibv_dealloc_pd(struct ibv_pd* handle) {
    if (const Fault fault{"ibv_dealloc_pd"}) return fault.error();
    Pd* pd = Pd::of(handle);
    Call call("ibv_dealloc_pd", "PD", pd->number);
    if (std::uint32_t users = pd->users)
        return fail(EBUSY, "%u regions, queue pairs, domains or address handles still use it", users);
    if (!pd->parent) {
        std::lock_guard lock(known_lock);
        known().erase(pd->number);
    }
    end_handle(pd);
    return 0;
}

struct ibv_pd* ibv_import_pd(struct ibv_context* context, uint32_t handle) {
    if (const Fault fault{"ibv_import_pd"}) return fault.null();
    Call call("ibv_import_pd", "PD", handle);
    if (!is_usable(*Context::of(context))) return nullptr;
    if (Context::of(context)->foreign)
        return fail_null(EOPNOTSUPP,
                         "the context was imported from another process, whose memory this one cannot reach");
    std::shared_ptr<Pd::Users> users;
    {
        std::lock_guard lock(known_lock);
        if (auto found = known().find(handle); found != known().end()) users = found->second.lock();
    }
    if (!users) return fail_null(ENOENT, "there is no protection domain %u", handle);
    Pd* pd = new_pd(context, handle, std::move(users));
    return pd ? &pd->base : nullptr;
}

void ibv_unimport_pd(struct ibv_pd* handle) { end_handle(Pd::of(handle)); }

}  // extern "C"
