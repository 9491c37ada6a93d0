// A program's side of the conversation with the daemon. The first call finds the daemon of this network
// namespace, user and fabric, or starts it; linking the libraries alone starts nothing.
//
// The functions are shared with librdmacm through libibverbs' private version node.
// Thread safety: all calls. After fork() the child has no connection and gets one of its own on its first
// call.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "host/device_table.h"
#include "host/protocol.h"

namespace verbena::host {

// One call; returns 0 or a positive errno with the daemon's reason recorded. EIO: the daemon is gone (then
// and for ever for this process generation: objects that it knew are dead). `send_fd` goes along (-1: none;
// not closed);
// `*received_fd` gets what came along (-1: none), close-on-exec.
[[gnu::visibility("default")]] int call(Command command, std::span<const std::uint8_t> request,
                                        std::span<std::uint8_t> reply, int send_fd = -1,
                                        int* received_fd = nullptr);

template <class Request, class Reply>
int call(Command command, const Request& request, Reply& reply, int send_fd = -1,
         int* received_fd = nullptr) {
    static_assert(std::is_trivially_copyable_v<Request> && std::is_trivially_copyable_v<Reply>);
    return call(
        command,
        std::span(static_cast<const std::uint8_t*>(static_cast<const void*>(&request)), sizeof request),
        std::span(static_cast<std::uint8_t*>(static_cast<void*>(&reply)), sizeof reply), send_fd,
        received_fd);
}

// Any command about an object that exists, or create_id with a number of the process's reserve, without
// waiting for its answer, which nobody gets. 0, or EIO with a reason: the daemon is gone.
[[gnu::visibility("default")]] int tell(Command command, std::span<const std::uint8_t> request);

// The same, but it goes along with the next command of the process, which also finds out if the daemon is
// gone: for what matters to nobody before that.
[[gnu::visibility("default")]] int put_off(Command command, std::span<const std::uint8_t> request);

// For who is about to wait: whether something is put off, and that it leaves now.
[[gnu::visibility("default")]] bool has_put_off();
[[gnu::visibility("default")]] void tell_put_off();

// The device table, mapped; nullptr with errno and a reason if there is no daemon and none can be started.
[[gnu::visibility("default")]] const DeviceTable* devices();
// Whether a device of this host has that address.
[[gnu::visibility("default")]] bool is_own(const Gid& address);

// Whom this process can reach, as the daemon said when it was found; without name before that.
[[gnu::visibility("default")]] FabricInfo fabric();

// Counts the daemons that this process has talked to; an object made under another generation is dead. That a
// daemon is gone shows at the next call().
[[gnu::visibility("default")]] std::uint32_t generation();

// Readable when the device table has changed, and at its end when the daemon is gone; for the engine. -1
// before the first call.
[[gnu::visibility("default")]] int lifeline_fd();

// Reads what the lifeline has. False: the daemon is gone.
[[gnu::visibility("default")]] bool take_news(int lifeline);

}  // namespace verbena::host
