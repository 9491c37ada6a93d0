// Protection domains (IBA 10.2.3).

#include <infiniband/verbs.h>

#include <atomic>
#include <cerrno>
#include <new>

#include "base/reason.h"
#include "verbs/objects.h"
#include "verbs/process.h"

using namespace verbena;
using namespace verbena::verbs;

extern "C" {

struct ibv_pd* ibv_alloc_pd(struct ibv_context* context) {
    Call call("ibv_alloc_pd");
    if (Process* process = Context::of(context)->process; !process->usable()) {
        process->refuse();
        return nullptr;
    }
    static std::atomic<memory::PdNumber> next{1};
    auto* pd = new (std::nothrow) Pd;
    if (!pd) return fail_null(ENOMEM, "no memory");
    pd->number = next.fetch_add(1);
    pd->base.context = context;
    pd->base.handle = pd->number;
    Context::of(context)->pds++;
    return &pd->base;
}

int ibv_dealloc_pd(struct ibv_pd* handle) {
    Pd* pd = Pd::of(handle);
    Call call("ibv_dealloc_pd", "PD", pd->number);
    if (std::uint32_t users = pd->users)
        return fail(EBUSY, "%u regions, queue pairs or address handles still use it", users);
    Context::of(handle->context)->pds--;
    delete pd;
    return 0;
}

}  // extern "C"
