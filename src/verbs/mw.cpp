// Memory windows (IBA 10.6.7; ibv_alloc_mw(3), ibv_bind_mw(3)). Type 2 is 2B: the queue pair that bound a
// window and its protection domain are checked.

#include "verbs/mw.h"

#include <cerrno>
#include <memory>
#include <new>

#include "adapter/adapter.h"
#include "adapter/clock.h"
#include "base/call_fault.h"
#include "base/out_of_memory.h"
#include "base/reason.h"
#include "verbs/objects.h"
#include "verbs/process.h"

namespace verbena::verbs {
namespace {

// The other rights count for nothing in a window, but programs give them.
constexpr memory::Access kWindowAccess = memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead |
                                         memory::kRemoteAtomic | memory::kZeroBased | memory::kFlushGlobal |
                                         memory::kFlushPersistent | memory::kOptionalMask;

// Of the rkey that the program chooses, as everywhere.
constexpr std::uint32_t kChosen = 0xff;

int fill_binding(const ibv_mw* mw, std::uint32_t rkey, const ibv_mw_bind_info& info,
                 transport::SendRequest& request) {
    if (!info.mr && info.length) return fail(EINVAL, "bind_info.mr is NULL");
    if (info.mw_access_flags & ~kWindowAccess)
        return fail(EINVAL, "mw_access_flags 0x%x has bits that a window cannot have", info.mw_access_flags);
    request.rkey = (mw->rkey & ~kChosen) | (rkey & kChosen);
    request.immediate_or_key = info.mr ? info.mr->lkey : 0;
    request.remote_address = info.addr;
    request.range = info.length;
    request.range_access = info.mw_access_flags;
    request.sges = {};
    return 0;
}

void adopt(Window& window, ibv_pd* pd, ibv_mw_type type) {
    window.base.context = pd->context;
    window.base.pd = pd;
    window.base.handle = window.base.rkey >> 8;
    window.base.type = type;
    Context* context = Context::of(pd->context);
    std::lock_guard lock(context->objects_lock);
    context->windows.insert(&window);
    Pd::of(pd)->enter();
}

}  // namespace

ibv_mw* alloc_mw(ibv_pd* pd_handle, ibv_mw_type type) {
    Call call("ibv_alloc_mw");
    if (const Fault fault{"ibv_alloc_mw"}) return fault.null();
    Pd* pd = Pd::of(pd_handle);
    Context* context = Context::of(pd_handle->context);
    if (!is_usable(*context)) return nullptr;
    if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
        return fail_null(EINVAL, "memory window type %d; there are types 1 and 2", static_cast<int>(type));
    std::unique_ptr<Window> window(new (std::nothrow) Window);
    if (!window) return fail_null(ENOMEM, "no memory");
    memory::RegionTable& regions = context->process->adapter().regions();
    const auto kind =
        type == IBV_MW_TYPE_1 ? memory::RecordKind::window_type1 : memory::RecordKind::window_type2;
    const int error = unless_out_of_memory([&] {
        const int refused = regions.add_window(pd->number, kind, window->base.rkey);
        if (!refused) adopt(*window, pd_handle, type);
        return refused;
    });
    if (error) {
        if (window->base.rkey != 0) regions.remove_window(window->base.rkey);
        errno = error;
        return nullptr;
    }
    return &window.release()->base;
}

int dealloc_mw(ibv_mw* mw) {
    Call call("ibv_dealloc_mw", "MW", mw->rkey);
    if (const Fault fault{"ibv_dealloc_mw"}) return fault.error();
    Context* context = Context::of(mw->context);
    if (!context->process->forked())
        if (int error = context->process->adapter().regions().remove_window(mw->rkey)) return error;
    {
        std::lock_guard lock(context->objects_lock);
        context->windows.erase(Window::of(mw));
    }
    Pd::of(mw->pd)->leave();
    delete Window::of(mw);
    return 0;
}

int bind_mw(ibv_qp* base, ibv_mw* mw, ibv_mw_bind* bind) {
    Call call("ibv_bind_mw", "MW", mw->rkey);
    if (const Fault fault{"ibv_bind_mw"}) return fault.error();
    QueuePair* qp = QueuePair::of(base);
    Process* process = qp->context->process;
    if (!process->usable()) return process->refuse();
    if (mw->type != IBV_MW_TYPE_1) return fail(EINVAL, "a type 2 window is bound by IBV_WR_BIND_MW");
    if (bind->bind_info.mw_access_flags & IBV_ACCESS_ZERO_BASED)
        return fail(EINVAL, "a type 1 window is not zero-based");
    if (mw->pd->context != base->context) return fail(EINVAL, "the window belongs to another context");
    transport::SendRequest request;
    request.wr_id = bind->wr_id;
    request.operation = transport::Operation::bind_window;
    request.flags = bind->send_flags;
    const std::uint32_t rkey = ibv_inc_rkey(mw->rkey);
    if (int error = fill_binding(mw, rkey, bind->bind_info, request)) return error;
    std::size_t done;
    const int error = process->adapter().post_send(qp->base()->qp_num, {&request, 1}, done, adapter::now());
    process->engine().posted();
    if (error == 0) mw->rkey = rkey;
    return error;
}

int describe_bind(const ibv_mw* mw, std::uint32_t rkey, const ibv_mw_bind_info& info,
                  transport::SendRequest& request) {
    if (!mw) return fail(EINVAL, "bind_mw.mw is NULL");
    if (mw->type != IBV_MW_TYPE_2)
        return fail(EINVAL, "only type 2 windows are bound by IBV_WR_BIND_MW; ibv_bind_mw binds type 1");
    return fill_binding(mw, rkey, info, request);
}

}  // namespace verbena::verbs
