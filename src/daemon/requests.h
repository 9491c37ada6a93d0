// What a request may look like. Every datagram of a program passes take_request(), which knows each
// command's exact length and whether a descriptor goes along; a program whose request does not fit is
// disconnected, and only it.
//
// Pure; reads inside the span only.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "host/protocol.h"

namespace verbena::daemon {

enum class Descriptors : std::uint8_t { none, one, optional };

struct CommandInfo {
    host::Command command;
    const char* name;
    std::uint32_t request_size;
    std::uint32_t reply_size;
    Descriptors descriptors = Descriptors::none;
};

// nullptr if there is no such command.
const CommandInfo* find_command(host::Command command);

// Bytes of the largest datagram that a program may send, and of what it is answered behind the header.
inline constexpr std::size_t kMaxRequestSize = 2048, kMaxReplySize = 2048;

struct Request {
    host::RequestHeader header;
    const CommandInfo* info = nullptr;
    std::span<const std::uint8_t> body;

    // T must be the command's request structure.
    template <class T>
    T as() const {
        static_assert(std::is_trivially_copyable_v<T>);
        T out;
        std::memcpy(static_cast<void*>(&out), body.data(), sizeof out);
        return out;
    }
};

enum class Malformed {
    none,
    too_short,
    magic,        // not our protocol at all
    version,      // another version: answered, not just cut off
    command,      // no such command
    length,       // not the command's
    descriptors,  // missing or superfluous
    field,        // a length or count field beyond its array, an address of no family
};
const char* to_string(Malformed malformed);

// Takes the next request off `datagram`, into which its body points, and fills `out`. With `version`,
// header.magic, version and nothing else is meaningful.
Malformed take_request(std::span<const std::uint8_t>& datagram, unsigned descriptors, Request& out);

}  // namespace verbena::daemon
