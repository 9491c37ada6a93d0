#include "interpose/next.h"

#include <dlfcn.h>

#include <cerrno>

namespace verbena::interpose {
namespace {

void* handle(Library library) {
    static constinit std::atomic<void*> handles[2] = {nullptr, nullptr};
    std::atomic<void*>& known = handles[static_cast<int>(library)];
    void* found = known.load(std::memory_order_acquire);
    if (found) return found;
    const char* name = library == Library::verbs ? "libibverbs.so.1" : "librdmacm.so.1";
    found = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (found) known.store(found, std::memory_order_release);
    return found;
}

template <class Function>
struct Asked;

// A function that only Verbena's libraries have; "" elsewhere.
template <class... Arguments>
struct Asked<const char*(Arguments...)> {
    const Library library;
    const char* const name;
    std::atomic<void*> address{nullptr};
    std::atomic<bool> looked{false};

    const char* operator()(Arguments... arguments) {
        if (!looked.load(std::memory_order_acquire)) {
            address.store(definition(library, name), std::memory_order_relaxed);
            looked.store(true, std::memory_order_release);
        }
        void* found = address.load(std::memory_order_relaxed);
        if (!found) return "";
        const int before = errno;
        const char* reason = reinterpret_cast<const char* (*)(Arguments...)>(found)(arguments...);
        errno = before;
        return reason ? reason : "";
    }
};

}  // namespace

void* definition(Library library, const char* name) {
    const int before = errno;
    void* loaded = handle(library);
    void* found = loaded ? dlsym(loaded, name) : nullptr;
    if (!found) found = dlsym(RTLD_NEXT, name);
    errno = before;
    return found;
}

ibv_qp_ex* extended_form(ibv_qp* qp) {
    void* found = definition(Library::verbs, "ibv_qp_to_qp_ex");
    return found ? reinterpret_cast<ibv_qp_ex* (*)(ibv_qp*)>(found)(qp) : nullptr;
}

const char* reason_of_last_call(int error) {
    static constinit Asked<const char*()> asked{Library::verbs, "verbena_last_reason"};
    return error == EAGAIN ? "" : asked();  // nothing to read yet is no failure, and leaves an older reason
}

const char* reason_of_completion(std::uint32_t qp_num, std::uint64_t wr_id, int status,
                                 std::uint32_t vendor_err) {
    static constinit Asked<const char*(std::uint32_t, std::uint64_t, int, std::uint32_t)> asked{
        Library::verbs, "verbena_completion_reason"};
    return asked(qp_num, wr_id, status, vendor_err);
}

const char* reason_of_async_event(const ibv_async_event* event) {
    static constinit Asked<const char*(const ibv_async_event*)> asked{Library::verbs,
                                                                      "verbena_async_event_reason"};
    return asked(event);
}

const char* reason_of_cm_event(const rdma_cm_event* event) {
    static constinit Asked<const char*(const rdma_cm_event*)> asked{Library::cm, "verbena_cm_event_reason"};
    return asked(event);
}

}  // namespace verbena::interpose
