// host::call in the convention of this library: 0, or -1 with errno (the reason is recorded by host::call).
#pragma once

#include <cerrno>
#include <cstdint>
#include <span>

#include "host/client.h"

namespace verbena::rdmacm {

inline int result_of(int error) {
    if (error == 0) return 0;
    errno = error;
    return -1;
}

template <class Request>
std::span<const std::uint8_t> bytes_of(const Request& request) {
    return {static_cast<const std::uint8_t*>(static_cast<const void*>(&request)), sizeof request};
}

template <class Request, class Reply>
int ask(host::Command command, const Request& request, Reply& reply) {
    return result_of(host::call(command, request, reply));
}

template <class Request>
int ask(host::Command command, const Request& request) {
    host::Empty nothing;
    return ask(command, request, nothing);
}

// Without waiting for an answer. 0, or -1 with errno: the daemon is gone.
template <class Request>
int tell(host::Command command, const Request& request) {
    return result_of(host::tell(command, bytes_of(request)));
}

// The same, along with the next that is told or asked: for what matters to nobody before.
template <class Request>
int put_off(host::Command command, const Request& request) {
    return result_of(host::put_off(command, bytes_of(request)));
}

// `suffices`: whatever speaks against it is an event, so that nobody need wait.
template <class Request>
int tell_or_ask(bool suffices, host::Command command, const Request& request) {
    return suffices ? tell(command, request) : ask(command, request);
}

}  // namespace verbena::rdmacm
