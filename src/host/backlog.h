// What a listener's program and the daemon share, so that a request which was read need not be told by a
// message, two changes of process: the program counts, and the daemon looks when it matters.
//
// The page (base/shared_page.h) is the program's, and goes along with Command::listen. Either writes its
// own word first and then reads the other's, both in sequential consistency: so the daemon, finding no room,
// is told of the next request, or sees that it was read already.
#pragma once

#include <atomic>
#include <cstdint>

namespace verbena::host {

struct Backlog {
    std::atomic<std::uint32_t> taken;  // requests that the program has read since it listens, modulo 2^32
    std::atomic<std::uint32_t> tell;   // not 0: and each is told, too (Command::request_taken)
};

}  // namespace verbena::host
