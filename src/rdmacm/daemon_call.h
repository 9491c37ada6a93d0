// host::call in the convention of this library: 0, or -1 with errno (the reason is recorded by host::call).
#pragma once

#include <cerrno>
#include <span>

#include "host/client.h"

namespace verbena::rdmacm {

template <class Request, class Reply>
int ask(host::Command command, const Request& request, Reply& reply) {
    int error = host::call(command, request, reply);
    if (error == 0) return 0;
    errno = error;
    return -1;
}

template <class Request>
int ask(host::Command command, const Request& request) {
    host::Empty nothing;
    return ask(command, request, nothing);
}

// Without waiting for an answer. 0, or -1 with errno: the daemon is gone.
template <class Request>
int tell(host::Command command, const Request& request) {
    const int error = host::tell(
        command,
        std::span(static_cast<const std::uint8_t*>(static_cast<const void*>(&request)), sizeof request));
    if (error == 0) return 0;
    errno = error;
    return -1;
}

// The same, along with the next that is told or asked: for what matters to nobody before.
template <class Request>
int put_off(host::Command command, const Request& request) {
    const int error = host::put_off(
        command,
        std::span(static_cast<const std::uint8_t*>(static_cast<const void*>(&request)), sizeof request));
    if (error == 0) return 0;
    errno = error;
    return -1;
}

}  // namespace verbena::rdmacm
