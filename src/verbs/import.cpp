// A file in memory, so that a duplicate of the descriptor, here or in another process, can still be read.

#include "verbs/import.h"

#include <infiniband/verbs.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/call_fault.h"
#include "base/no_cancellation.h"
#include "base/own_file.h"
#include "base/reason.h"
#include "base/sealed_file.h"
#include "verbs/objects.h"
#include "verbs/process.h"

namespace verbena::verbs {
namespace {

constexpr std::uint64_t kMagic = 0x3158'5443'4252'4556;  // "VERBCTX1" in memory order

std::mutex files_lock;

bool all_closed(const Context& of_file) {
    const Context* each = &of_file;
    do {
        if (!each->closed) return false;
        each = each->next_of_file;
    } while (each != &of_file);
    return true;
}

}  // namespace

int make_command_file(std::uint32_t index, std::uint64_t node_guid) {
    const CommandFile content{kMagic, static_cast<std::uint32_t>(getpid()), index, node_guid};
    int fd = may_be_as_large(sizeof content) ? create_memory_file("verbena-context") : -1;
    if (fd < 0 && forbids_memory_files(errno)) {  // a descriptor, then, that nobody can import
        fd = out_of_the_way(eventfd(0, EFD_CLOEXEC));
        if (fd >= 0) return fd;
    }
    if (fd < 0) return fail_minus_one(errno, "no descriptor for the context: %s", std::strerror(errno));
    if (pwrite(fd, &content, sizeof content, 0) == sizeof content) return fd;
    close(fd);
    return fail_minus_one(ENOMEM, "no memory for the context's descriptor");
}

int read_command_file(int fd, CommandFile& out) {
    if (pread(fd, &out, sizeof out, 0) == sizeof out && out.magic == kMagic) return 0;
    return fail(EINVAL, "descriptor %d is no context's cmd_fd", fd);
}

void join_file(Context& imported) {
    imported.process->for_each_context([&](Context& other) {
        std::lock_guard lock(files_lock);
        const bool joined = imported.next_of_file != &imported;
        if (&other != &imported && !joined && other.command_file == imported.command_file &&
            !all_closed(other))
            std::swap(imported.next_of_file, other.next_of_file);
    });
}

bool leave_file(Context& context) {
    std::lock_guard lock(files_lock);
    context.closed = true;
    return all_closed(context);
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

extern "C" {

// The descriptor is the new context's from now on.
struct ibv_context* ibv_import_device(int cmd_fd) {
    if (const Fault fault{"ibv_import_device"}) return fault.null();
    Call call("ibv_import_device");
    const NoCancellation whole;
    CommandFile content;
    if (int error = read_command_file(cmd_fd, content)) {
        errno = error;
        return nullptr;
    }
    ibv_device** list = ibv_get_device_list(nullptr);
    ibv_device* found = nullptr;
    for (ibv_device** entry = list; entry && *entry && !found; entry++) {
        const Device* device = Device::of(*entry);
        if (device->index == content.index && device->node_guid == content.node_guid) found = *entry;
    }
    ibv_free_device_list(list);
    if (!found) return fail_null(ENODEV, "the descriptor's device is not there");
    ibv_context* context = ibv_open_device(found);
    if (!context) return nullptr;
    close(context->cmd_fd);
    context->cmd_fd = cmd_fd;
    Context::of(context)->command_file = FileIdentity::of(cmd_fd);
    Context::of(context)->foreign = content.pid != static_cast<std::uint32_t>(getpid());
    join_file(*Context::of(context));
    return context;
}

}  // extern "C"
