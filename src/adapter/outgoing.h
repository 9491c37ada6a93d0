// Packets that leave in one go: a sink, and what it holds. Each thread that posts has one to itself, mostly,
// and so has who drives the adapter; packets of several queue pairs that go the same way leave in one burst,
// and all others by one call.
//
// A queue pair has packets in one of them at a time, whose lock is held while more are added (Boarding); they
// leave before the queue pair is changed or destroyed.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/lock.h"
#include "base/time.h"
#include "wire/packet_sink.h"

namespace verbena::adapter {

struct alignas(64) Outgoing {
    Lock lock;  // behind a queue pair's; nobody waits for a second one
    // Under the lock.
    unsigned waiting = 0;       // requests that gather
    Time alone_since = kNever;  // the first of them, if little else was under way to its peer
    // How its thread posts (gathering.cpp).
    unsigned row = 0;         // requests that came behind each other, up to some
    unsigned last_row = 0;    // ... before these
    std::uint32_t looks = 0;  // State::looks_ by then
    Time posted_at = 0;       // the newest

    // Written under the lock.
    std::atomic<wire::PacketSink*> sink{nullptr};  // borrowed, from the first packet to the flush
    std::atomic<std::uint32_t> turn{0};            // how often all has left
    std::atomic<Time> until{kNever};               // the first that gathers leaves by then

    wire::PacketSink* held() const { return sink.load(std::memory_order_relaxed); }
};

}  // namespace verbena::adapter
